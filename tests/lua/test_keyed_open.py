"""What keyed_open settles, and that it never settles it anew."""

from __future__ import annotations

import pytest
import redis

from redis_counters.protocol.wire.commands import Script
from tests.lua import keyed
from tests.lua.calls import GENERATION, INDEX, REGISTRY, Bucket, key
from tests.lua.scenarios import denied, full_memory, read_only

A, B, C = key("a"), key("b"), key("c")


def test_what_is_wanted_first_holds(bucket: Bucket) -> None:
    """Whoever asks later gets that, whatever he wants."""
    assert keyed.settle(bucket, (A, 4), (B, 1)) == ("OK", b"4", b"1")
    assert keyed.settle(bucket, (A, 9), (B, 7), (C, 2)) == ("OK", b"4", b"1", b"2")
    assert bucket.fields(A) == {b"o": b"4", b"k": b"4", b"d": b"gen00.1"}
    assert bucket.fields(B) == {b"o": b"1", b"d": b"gen00.1"}
    assert bucket.fields(C) == {b"o": b"2", b"k": b"2", b"d": b"gen00.2"}


def test_a_registry_is_made_where_there_is_none(bucket: Bucket) -> None:
    """As an actor's opening would make it: the next actor and the next dot have numbers of their own."""
    assert keyed.settle(bucket, (A, 1), generation=b"") == ("UNKNOWN",)
    assert bucket.everything() == {}
    keyed.settle(bucket, (A, 1))
    assert bucket.registry() == {b"g": GENERATION, b"n": b"1", b"c": b"0"}
    assert bucket.actor() == b"gen00.2.bbbb"
    keyed.settle(bucket, (B, 1), generation=b"")
    assert bucket.map(B).dot == b"gen00.3"


@pytest.mark.parametrize(("there", "read"), [(b"2", b"4"), (b"4", b"4"), (b"9", b"9"), (b"10", b"10")])
def test_readers_are_told_of_all_key_shards(bucket: Bucket, there: bytes, read: bytes) -> None:
    """The number of shards to read is raised to that of key shards, and never lowered."""
    bucket.merge(bucket.actor(), 1, widened=[(A, int(there))])
    dot = bucket.map(A).dot
    assert keyed.settle(bucket, (A, 4)) == ("OK", b"4")
    assert bucket.fields(A)[b"k"] == read
    assert bucket.map(A).dot == dot


def test_settled_again_nothing_is_written(bucket: Bucket) -> None:
    keyed.settle(bucket, (A, 4), (B, 1))
    before = bucket.everything()
    with read_only(bucket):
        assert keyed.settle(bucket, (A, 5), (B, 5)) == ("OK", b"4", b"1")
    assert bucket.everything() == before


def test_a_key_of_another_type_is_refused_alone(bucket: Bucket) -> None:
    bucket.client.set(B, "mine")
    word, a, b, c = keyed.settle(bucket, (A, 4), (B, 4), (C, 4))
    assert (word, a, c) == ("OK", b"4", b"4")
    assert isinstance(b, bytes)
    assert b.startswith(b"!WRONGTYPE")
    assert bucket.client.get(B) == b"mine"


@pytest.mark.parametrize(
    "arguments", [[], ["gen00"], ["gen00", "1", "1"], ["gen00", "0"], ["gen00", "-1"], ["gen00", "x"]]
)
def test_bad_arguments_write_nothing(bucket: Bucket, arguments: list[str]) -> None:
    with pytest.raises(redis.ResponseError, match="BADARG keyed_open"):
        bucket.ask("EVAL", text(), 3, REGISTRY, INDEX, A, *arguments)
    assert bucket.everything() == {}


def text() -> bytes:
    from redis_counters.protocol.wire import scripts

    return scripts.text(Script.KEYED_OPEN)


def test_who_may_not_write_is_told(bucket: Bucket) -> None:
    """And nothing is half written: not without memory, not on a follower, not without the right to."""
    with full_memory(bucket), pytest.raises(redis.ResponseError, match=r"OOM|memory"):
        keyed.settle(bucket, (A, 4))
    with read_only(bucket), pytest.raises(redis.ResponseError):
        keyed.settle(bucket, (A, 4))
    with denied(bucket, "hset") as other, pytest.raises(redis.ResponseError):
        keyed.settle(other, (A, 4))
    assert bucket.everything() == {}
