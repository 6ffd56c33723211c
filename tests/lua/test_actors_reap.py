"""Who has been silent for long is closed by actors_reap, and nobody else."""

from __future__ import annotations

import pytest

from redis_counters.protocol.wire.commands import Script
from tests.lua.calls import OWNER, REGISTRY, Bucket, key
from tests.lua.scenarios import denied, full_memory, read_only

A = key("a")


def silent(bucket: Bucket, seconds: int, owner: bytes = OWNER) -> bytes:
    """Return an actor that flushed once, so long ago."""
    actor = bucket.actor(owner)
    bucket.merge(actor, 1, fresh_plus=[(A, 7)])
    bucket.age(actor, seconds)
    return actor


def test_the_silent_are_closed(bucket: Bucket) -> None:
    """With the time of closing, and with all else as it was; who told something lately stays open."""
    old, new = silent(bucket, 100), silent(bucket, 90, b"otherowner1234")
    before = bucket.record(old)
    now = bucket.now()
    answer = bucket.reap(95, old, new)
    assert answer[2:] == (old,)
    assert now <= int(answer[1]) <= now + 5
    assert bucket.record(old) == [b"c", b"1", answer[1], *before[3:]]
    assert bucket.record(new)[0] == b"o"


def test_its_owner_takes_it_back(bucket: Bucket) -> None:
    """A flush is answered CLOSED, the reopening OPEN; its silence begins anew with that."""
    actor = silent(bucket, 100)
    bucket.reap(100, actor)
    assert bucket.merge(actor, 2, 1, known_plus=[(A, 9)]) == ("CLOSED", 1)
    bucket.age(actor, 50)
    assert bucket.open(OWNER, actor) == ("OPEN", actor, 1)
    assert bucket.reap(10, actor)[2:] == ()
    assert bucket.merge(actor, 2, 1, known_plus=[(A, 9)]) == ("OK", 2)
    assert bucket.value(A) == 9


def test_others_are_left_alone(bucket: Bucket) -> None:
    """Who is closed or folded already, unknown, or unreadable."""
    closed, folded = silent(bucket, 100), silent(bucket, 100, b"otherowner1234")
    bucket.close(closed)
    bucket.end(folded, A)
    for actor in (closed, folded):
        bucket.age(actor, 100)
    bucket.client.hset(REGISTRY, "gen00.9.spoilt", "o x y z")
    before = bucket.everything()
    assert bucket.reap(0, closed, folded, b"gen00.9.spoilt", b"gen00.77.none", b"g")[2:] == ()
    assert bucket.everything() == before


def test_without_a_registry_none_is_made(bucket: Bucket) -> None:
    assert bucket.reap(0, b"gen00.1.bbbb")[2:] == ()
    assert bucket.everything() == {}


@pytest.mark.parametrize("ttl", ["", "x", "-1", "1.5"])
def test_a_ttl_that_is_no_number_is_refused(bucket: Bucket, ttl: str) -> None:
    actor = silent(bucket, 100)
    before = bucket.everything()
    with pytest.raises(Exception, match="BADARG actors_reap: ttl"):
        bucket.call(Script.ACTORS_REAP, [REGISTRY], [ttl.encode(), actor])
    assert bucket.everything() == before


def test_a_full_server_reaps(bucket: Bucket) -> None:
    """Or it could never free the memory that folding frees."""
    actor = silent(bucket, 100)
    with full_memory(bucket):
        assert bucket.reap(100, actor)[2:] == (actor,)


def test_a_demoted_primary_reaps_nobody(bucket: Bucket) -> None:
    actor = silent(bucket, 100)
    before = bucket.everything()
    with read_only(bucket), pytest.raises(Exception, match=r"READONLY|read.only"):
        bucket.reap(100, actor)
    assert bucket.everything() == before


@pytest.mark.parametrize("command", ["hset", "hdel", "time"])
def test_a_missing_permission_changes_nothing(bucket: Bucket, command: str) -> None:
    actor = silent(bucket, 100)
    before = bucket.everything()
    with denied(bucket, command) as partly, pytest.raises(Exception, match=r"NOPERM|ACL|can't"):
        partly.reap(100, actor)
    assert bucket.everything() == before
