"""Records that nobody needs any more are gone by actors_clean; whoever comes back is told rightly all the same."""

from __future__ import annotations

import pytest

from redis_counters.protocol.wire.commands import Script
from tests.lua.calls import GENERATION, OWNER, REGISTRY, Bucket, key
from tests.lua.scenarios import denied, read_only

A = key("a")
OTHER = b"otherowner1234"


def folded(bucket: Bucket, seconds: int, owner: bytes = OWNER) -> bytes:
    """Return an actor that was folded so long ago."""
    actor = bucket.actor(owner)
    bucket.merge(actor, 1, fresh_plus=[(A, 7)])
    bucket.end(actor, A)
    bucket.age(actor, seconds)
    return actor


def test_old_records_are_gone(bucket: Bucket) -> None:
    """With their owners; the highest number and the walk are kept."""
    old, new = folded(bucket, 100), folded(bucket, 10, OTHER)
    walked = bucket.now()
    assert bucket.clean(walked, 50, old, new)[2:] == (old,)
    registry = bucket.registry()
    assert old not in registry
    assert b"@" + OWNER not in registry
    assert (registry[b"c"], registry[b"w"]) == (old.split(b".")[1], b"%d" % walked)
    assert bucket.record(new)[0] == b"f"
    assert bucket.value(A) == 14


def test_whoever_comes_back_later_is_told_that_it_is_gone(bucket: Bucket) -> None:
    """He does not get his record put back, for his totals are in the base; nor does a late copy of a flush apply."""
    actor = folded(bucket, 100)
    bucket.clean(bucket.now(), 50, actor)
    before = bucket.everything()
    assert bucket.open(OWNER, actor) == ("GONE",)
    assert bucket.merge(actor, 2, 1, known_plus=[(A, 9)]) == ("UNKNOWN",)
    assert bucket.fold(actor, A) == ("UNKNOWN",)
    assert bucket.everything() == before


def test_an_actor_with_a_higher_number_is_not_gone(bucket: Bucket) -> None:
    """It was lost by a fail-over, or with its registry, and is put back."""
    first = folded(bucket, 100)
    second = bucket.actor(OTHER)
    bucket.clean(bucket.now(), 50, first)
    bucket.client.hdel(REGISTRY, second)
    assert bucket.open(OTHER, second) == ("OPEN", second, 0)


def test_the_highest_number_stays_the_highest(bucket: Bucket) -> None:
    first, second = folded(bucket, 100), folded(bucket, 100, OTHER)
    bucket.clean(bucket.now(), 50, second)
    bucket.clean(bucket.now(), 50, first)
    assert bucket.registry()[b"c"] == second.split(b".")[1]
    assert {bucket.open(OWNER, first), bucket.open(OTHER, second)} == {("GONE",)}


def test_without_a_walk_that_began_later_nobody_is_forgotten(bucket: Bucket) -> None:
    """A counter may still have a slot of him: the fold may have been cut off. In the same second is not later."""
    actor = folded(bucket, 100)
    seen = int(bucket.record(actor)[2])
    for walked in (0, seen - 1, seen):
        assert bucket.clean(walked, 50, actor)[2:] == ()
    assert bucket.clean(seen + 1, 50, actor)[2:] == (actor,)


def test_an_earlier_walk_is_remembered(bucket: Bucket) -> None:
    actor = folded(bucket, 100)
    assert bucket.clean(bucket.now(), 200, actor)[2:] == ()
    assert bucket.clean(0, 50, actor)[2:] == (actor,)


@pytest.mark.parametrize("state", [b"o", b"c"])
def test_only_the_folded_are_forgotten(bucket: Bucket, state: bytes) -> None:
    actor = bucket.actor()
    if state == b"c":
        bucket.close(actor)
    bucket.age(actor, 1000)
    assert bucket.clean(bucket.now(), 0, actor)[2:] == ()
    assert bucket.record(actor)[0] == state


def test_records_of_an_earlier_generation_stay(bucket: Bucket) -> None:
    """The mark is of the registry's own: an owner of another one would be let to tell everything again."""
    actor = folded(bucket, 100)
    record = bucket.registry()[actor]
    bucket.client.delete(REGISTRY)
    bucket.open(OTHER, b"", b"gen01")
    bucket.client.hset(REGISTRY, actor, record)
    assert actor.startswith(GENERATION)
    assert bucket.clean(bucket.now(), 50, actor)[2:] == ()
    assert bucket.open(OWNER, actor) == ("FOLDED", 1)


def test_an_owner_with_another_actor_keeps_it(bucket: Bucket) -> None:
    """His first opening was not answered, then reaped; he was given a second actor."""
    first = folded(bucket, 100)
    second = bucket.actor()
    assert second != first
    assert bucket.clean(bucket.now(), 50, first)[2:] == (first,)
    assert bucket.open(OWNER) == ("OPEN", second, 0)


def test_without_a_registry_none_is_made(bucket: Bucket) -> None:
    assert bucket.clean(bucket.now(), 0, b"gen00.1.bbbb")[2:] == ()
    assert bucket.everything() == {}


@pytest.mark.parametrize("arguments", [(b"", b"1"), (b"1", b"x"), (b"-1", b"1"), (b"1", b"1.5")])
def test_what_is_no_number_is_refused(bucket: Bucket, arguments: tuple[bytes, bytes]) -> None:
    actor = folded(bucket, 100)
    before = bucket.everything()
    with pytest.raises(Exception, match="BADARG actors_clean"):
        bucket.call(Script.ACTORS_CLEAN, [REGISTRY], [*arguments, actor])
    assert bucket.everything() == before


def test_a_demoted_primary_forgets_nobody(bucket: Bucket) -> None:
    actor = folded(bucket, 100)
    before = bucket.everything()
    with read_only(bucket), pytest.raises(Exception, match=r"READONLY|read.only"):
        bucket.clean(bucket.now(), 50, actor)
    assert bucket.everything() == before


@pytest.mark.parametrize("command", ["hset", "hdel", "hmget", "time"])
def test_a_missing_permission_forgets_nobody(bucket: Bucket, command: str) -> None:
    actor = folded(bucket, 100)
    before = bucket.everything()
    with denied(bucket, command) as partly, pytest.raises(Exception, match=r"NOPERM|ACL|can't"):
        partly.clean(bucket.now(), 50, actor)
    assert bucket.everything() == before
