"""What shard 0 holds a copy of is told to other regions once; no value changes here."""

from __future__ import annotations

import pytest
import redis

from redis_counters.crdt.shard_copies import beyond
from redis_counters.crdt.shard_fields import entries_in
from redis_counters.protocol.wire import scripts
from redis_counters.protocol.wire.commands import Script
from tests.lua.calls import INDEX, REGISTRY, Answer, Bucket, key
from tests.lua.regions import join, read, stamps
from tests.lua.scenarios import full_memory

SHARD, DOT = key("a", 3), b"gen99.7"
COPIES = {b"s.3.gen99.7": (10, 4)}


def floor(bucket: Bucket, plus: int = 10, minus: int = 4, dot: bytes = DOT) -> Answer:
    return bucket.call(Script.SHARD_FLOOR, [REGISTRY, INDEX, SHARD], [dot, plus, minus])


@pytest.mark.parametrize("grown", [0, 5])
def test_as_much_as_the_copy_lies_under_a_floor(bucket: Bucket, grown: int) -> None:
    join(bucket)
    bucket.client.hset(SHARD, mapping={"d": DOT, "+": 10, "-": 4, "gen99.8.own+": grown})
    before = beyond(entries_in(bucket.fields(SHARD).items()), 3, COPIES)
    assert floor(bucket) == ("OK", 1)
    assert beyond(entries_in(bucket.fields(SHARD).items()), 3, COPIES) == before == grown
    assert read(bucket, SHARD) == [b"0 0 eu/gen99.7,%d,4,10,4" % (10 + grown)]
    assert stamps(bucket)[b"3:a"] == 2
    before_again = bucket.everything()
    assert floor(bucket) == ("OK", 0)
    assert floor(bucket, 9, 3) == ("OK", 0)
    assert bucket.everything() == before_again


def test_a_floor_is_never_above_its_total(bucket: Bucket) -> None:
    """The shard fell back behind its copy: a fail-over."""
    join(bucket)
    bucket.client.hset(SHARD, mapping={"d": DOT, "+": 3})
    floor(bucket)
    assert read(bucket, SHARD) == [b"0 0 eu/gen99.7,10,4,10,4"]
    assert beyond(entries_in(bucket.fields(SHARD).items()), 3, COPIES) == 0


def test_of_an_earlier_key_too(bucket: Bucket) -> None:
    join(bucket)
    bucket.client.hset(SHARD, mapping={"d": "gen00.9", "+": 2, "@/gen99.7+": 12})
    assert floor(bucket) == ("OK", 1)
    assert read(bucket, SHARD) == [b"0 0 eu/gen00.9,2 eu/gen99.7,12,4,10,4"]


def test_nothing_stays_behind_a_seal(bucket: Bucket) -> None:
    """Unless it is more than the copy, or of another key: then it is not what was copied."""
    join(bucket)
    for text in (
        "sealed gen00.5 170 gen99.7 11 4",
        "sealed gen00.5 170 gen99.6 10 4",
        "sealed gen00.5 170 - 0 0",
        "mine",
    ):
        bucket.client.set(SHARD, text)
        assert floor(bucket) == ("OK", 0)
        assert bucket.client.get(SHARD) == text.encode()
    bucket.client.set(SHARD, "sealed gen00.5 170 gen99.7 10 3")
    assert floor(bucket) == ("OK", 1)
    assert bucket.client.get(SHARD) == b"sealed gen00.5 170 - 0 0"
    assert bucket.unseal(SHARD, b"gen00.5") == ("OK",)
    assert bucket.client.exists(SHARD) == 0


def test_another_key_is_left(bucket: Bucket) -> None:
    """None at all; one that was made since; one of another type."""
    join(bucket)
    assert floor(bucket) == ("OK", 0)
    bucket.client.hset(SHARD, mapping={"d": "gen00.9", "+": 2})
    assert floor(bucket) == ("OK", 0)
    assert bucket.fields(SHARD) == {b"d": b"gen00.9", b"+": b"2"}
    bucket.client.delete(SHARD)
    bucket.client.rpush(SHARD, "mine")
    assert floor(bucket) == ("OK", 0)


def test_joining_tells_which_were_given_fewer(bucket: Bucket) -> None:
    """By their shard 0, where it is one: not sealed ones, nor others' keys."""
    bucket.client.hset(key("b"), mapping={"d": "gen00.1", "z": "-"})
    bucket.client.hset(key("c"), mapping={"d": "gen00.1", "z": "gen00.4:1"})
    bucket.client.hset(key("d", 1), mapping={"d": "gen00.1", "z": "-"})
    bucket.client.set(key("e"), "mine")
    bucket.seal(key("f", 10))
    assert join(bucket, key("a"), key("b"), key("c"), key("d", 1), key("e"), key("f", 10)) == ("OK", b"1", 2, 3)


def test_who_may_not_write_is_told(bucket: Bucket) -> None:
    join(bucket)
    bucket.client.hset(SHARD, mapping={"d": DOT, "+": 10})
    before = bucket.everything()
    with full_memory(bucket), pytest.raises(redis.ResponseError, match=r"OOM|memory"):
        floor(bucket)
    assert bucket.everything() == before


@pytest.mark.parametrize("arguments", [[], ["x", "1"], ["", "1", "1"], ["x", "01", "1"], ["x", "1", "-1"]])
def test_bad_arguments_write_nothing(bucket: Bucket, arguments: list[str]) -> None:
    with pytest.raises(redis.ResponseError, match="BADARG shard_floor"):
        bucket.ask("EVAL", scripts.text(Script.SHARD_FLOOR), 3, REGISTRY, INDEX, SHARD, *arguments)
    assert bucket.everything() == {}
