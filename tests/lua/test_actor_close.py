"""When actor_close closes, and when it says that a fail-over took flushes back."""

from __future__ import annotations

import pytest

from redis_counters.protocol.wire.commands import Script
from tests.lua.calls import REGISTRY, Bucket, key
from tests.lua.scenarios import full_memory

A = key("a")


def test_the_record_says_closed(bucket: Bucket) -> None:
    """All else in it stays, also when the actor was closed before."""
    actor = bucket.actor()
    bucket.merge(actor, 4, fresh_plus=[(A, 1)])
    before = bucket.record(actor)
    assert bucket.close(actor, 4) == ("OK", 4)
    assert bucket.record(actor) == [b"c", *before[1:]]
    once = bucket.everything()
    assert bucket.close(actor, 4) == ("OK", 4)
    assert bucket.everything() == once


def test_its_slots_stay(bucket: Bucket) -> None:
    actor = bucket.actor()
    bucket.merge(actor, 4, fresh_plus=[(A, 1)])
    before = bucket.shards()
    bucket.close(actor, 4)
    assert bucket.shards() == before


def test_a_folded_actor_says_so(bucket: Bucket) -> None:
    """Also to an owner that saw more acknowledged: it is too late for that."""
    actor = bucket.actor()
    bucket.merge(actor, 4, fresh_plus=[(A, 1)])
    bucket.end(actor, A)
    before = bucket.everything()
    assert bucket.close(actor, 4) == ("FOLDED", 4)
    assert bucket.close(actor, 9) == ("FOLDED", 4)
    assert bucket.everything() == before


@pytest.mark.parametrize("closed", [False, True])
def test_a_fail_over_is_noticed(bucket: Bucket, closed: bool) -> None:
    """The owner saw flush 5 acknowledged, the record tells of 4: it has to tell its totals again first."""
    actor = bucket.actor()
    bucket.merge(actor, 4, fresh_plus=[(A, 1)])
    if closed:
        bucket.close(actor)
    before = bucket.everything()
    assert bucket.close(actor, 5) == ("REGRESS", 4)
    assert bucket.everything() == before


@pytest.mark.parametrize("record", [None, "", "c", "o x 1 owner name"])
def test_an_actor_without_a_readable_record_is_unknown(bucket: Bucket, record: str | None) -> None:
    actor = bucket.actor()
    bucket.client.hdel(REGISTRY, actor)
    if record is not None:
        bucket.client.hset(REGISTRY, actor, record)
    before = bucket.everything()
    assert bucket.close(actor) == ("UNKNOWN",)
    assert bucket.everything() == before


@pytest.mark.parametrize("base", [b"", b"x", b"-1", b"1.5", b"nan", b"inf", b"0x1"])
def test_a_base_that_is_no_number_writes_nothing(bucket: Bucket, base: bytes) -> None:
    actor = bucket.actor()
    before = bucket.everything()
    with pytest.raises(Exception, match=r"^BADARG actor_close: "):
        bucket.call(Script.ACTOR_CLOSE, [REGISTRY], [actor, base])
    assert bucket.everything() == before


def test_a_registry_of_another_type_is_an_error(bucket: Bucket) -> None:
    bucket.client.set(REGISTRY, "mine")
    with pytest.raises(Exception, match="WRONGTYPE"):
        bucket.close(b"gen00.1.bbbb")


def test_closing_is_a_change_of_now(bucket: Bucket) -> None:
    """Whoever folds it waits from here on; closing it again changes nothing."""
    actor = bucket.actor()
    bucket.age(actor, 1000)
    now = bucket.now()
    bucket.close(actor)
    state, _, seen, *_ = bucket.record(actor)
    assert state == b"c"
    assert now <= int(seen) <= now + 5
    bucket.age(actor, 10)
    before = bucket.record(actor)
    bucket.close(actor)
    assert bucket.record(actor) == before


def test_closing_needs_no_memory(bucket: Bucket) -> None:
    """Or a full server would keep all slots for ever, which folding turns into one."""
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(key(1), 5)])
    with full_memory(bucket):
        assert bucket.end(actor, key(1)) == ("OK", 1)
    assert bucket.map(key(1)).value == 5
    assert bucket.record(actor)[0] == b"f"
