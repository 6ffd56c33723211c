"""Set and base agree, whatever likes_apply is told."""

from __future__ import annotations

import random

import pytest
import redis

from redis_counters.protocol.wire import scripts
from redis_counters.protocol.wire.commands import Script
from tests.lua import keyed
from tests.lua.calls import GENERATION, HIGHEST, INDEX, REGISTRY, Bucket, key
from tests.lua.keyed import like
from tests.lua.scenarios import denied, full_memory, read_only

A, B, C = key("a"), key("b"), key("c")
USERS = {A: keyed.users("a"), B: keyed.users("b"), C: keyed.users("c")}


def told(bucket: Bucket, *items: tuple[bytes, bytes, bytes]) -> list[bytes]:
    """Return what is answered to each (shard, sign, user)."""
    return keyed.answers(like(bucket, *((shard, USERS[shard], sign, user) for shard, sign, user in items)))


def agree(bucket: Bucket, shard: bytes) -> int:
    """Return how many users like; the value is that."""
    count = int(bucket.ask("SCARD", USERS[shard]))
    assert bucket.value(shard) == count
    return count


def test_a_like_counts_once_and_is_taken_back_once(bucket: Bucket) -> None:
    assert told(bucket, (A, b"+", b"u"), (A, b"+", b"v"), (A, b"+", b"u")) == [b"2", b"1", b"0"]
    assert told(bucket, (A, b"-", b"u"), (A, b"-", b"u"), (A, b"-", b"w")) == [b"1", b"0", b"0"]
    assert bucket.fields(A) == {b"+": b"2", b"-": b"1", b"d": b"gen00.1"}
    assert bucket.ask("SMEMBERS", USERS[A]) in ({b"v"}, [b"v"])
    assert agree(bucket, A) == 1


def test_any_order_of_likes_leaves_set_and_value_equal(bucket: Bucket) -> None:
    """2,000 random likes of 30 users, in calls of several; each answer says whether that changed something."""
    chance, likers = random.Random(3), {A: set[bytes](), B: set[bytes]()}
    for _ in range(200):
        items = [
            (chance.choice([A, B]), chance.choice([b"+", b"-"]), b"\x00%d\xff" % chance.randrange(30))
            for _ in range(10)
        ]
        for (shard, sign, user), answer in zip(items, told(bucket, *items), strict=True):
            changes = (user in likers[shard]) != (sign == b"+")
            assert (answer in (b"1", b"2")) == changes
            (likers[shard].add if sign == b"+" else likers[shard].discard)(user)
    for shard, expected in likers.items():
        assert agree(bucket, shard) == len(expected)


def test_a_registry_is_made_where_there_is_none(bucket: Bucket) -> None:
    assert like(bucket, (A, USERS[A], b"+", b"u"), generation=b"") == ("UNKNOWN",)
    assert bucket.everything() == {}
    told(bucket, (A, b"+", b"u"))
    assert bucket.registry() == {b"g": GENERATION, b"n": b"1", b"c": b"0"}
    assert bucket.actor() == b"gen00.2.bbbb"
    assert told(bucket, (B, b"+", b"u"), (A, b"+", b"v")) == [b"2", b"1"]
    assert bucket.map(B).dot == b"gen00.3"


def test_what_changes_nothing_makes_no_key(bucket: Bucket) -> None:
    assert told(bucket, (A, b"-", b"u")) == [b"0"]
    assert bucket.shards() == {}


def test_a_key_of_another_type_is_refused_alone(bucket: Bucket) -> None:
    """Be it the shard or the set; and the other of the two stays as it was."""
    bucket.client.set(B, "mine")
    bucket.client.set(USERS[C], "mine")
    first, shard, users = told(bucket, (A, b"+", b"u"), (B, b"+", b"u"), (C, b"+", b"u"))
    assert first == b"2"
    assert shard.startswith(b"!WRONGTYPE")
    assert users.startswith(b"!WRONGTYPE")
    assert bucket.ask("EXISTS", USERS[B], C) == 0
    bucket.client.delete(B, USERS[C])
    assert told(bucket, (B, b"+", b"u"), (C, b"+", b"u")) == [b"2", b"2"]


@pytest.mark.parametrize("command", ["sadd", "srem", "hincrby", "sismember"])
def test_without_a_right_nothing_is_half_done(bucket: Bucket, command: str) -> None:
    """Value and set agree after a refusal too."""
    told(bucket, (A, b"+", b"u"))
    with denied(bucket, command) as other:
        answers = told(other, (A, b"+", b"v"), (A, b"-", b"u"))
    assert sum(answer.startswith(b"!") for answer in answers) == (1 if command in ("sadd", "srem") else 2)
    agree(bucket, A)


def test_who_may_not_write_is_told(bucket: Bucket) -> None:
    told(bucket, (A, b"+", b"u"))
    before = bucket.shards()
    with full_memory(bucket), pytest.raises(redis.ResponseError, match=r"OOM|memory"):
        told(bucket, (A, b"+", b"v"))
    with read_only(bucket), pytest.raises(redis.ResponseError):
        told(bucket, (A, b"+", b"v"))
    assert bucket.shards() == before


@pytest.mark.parametrize("sign", [b"+", b"-"])
def test_a_base_beyond_int64_goes_on_in_another_field(bucket: Bucket, sign: bytes) -> None:
    bucket.client.hset(A, sign, HIGHEST)
    value = bucket.value(A)
    if sign == b"-":
        bucket.client.sadd(USERS[A], "u", "v")
    assert told(bucket, (A, sign, b"u"), (A, sign, b"v"))[1] == b"1"
    assert bucket.value(A) == value + (2 if sign == b"+" else -2)
    bucket.client.hset(A, mapping={b"%b%b" % (b"%d" % i if i else b"", sign): HIGHEST for i in range(16)})
    bucket.client.srem(USERS[A], "w")
    if sign == b"-":
        bucket.client.sadd(USERS[A], "w")
    (refused,) = told(bucket, (A, sign, b"w"))
    assert b"overflow" in refused
    assert bucket.client.sismember(USERS[A], "w") == (sign == b"-")


@pytest.mark.parametrize(
    ("keys", "arguments"),
    [
        (1, []),
        (3, ["gen00", "+"]),
        (4, ["gen00", "+"]),
        (4, ["gen00", "u", "+"]),
        (4, ["gen00", "", "u"]),
        (3, ["gen00", "+", "u"]),
    ],
)
def test_bad_arguments_write_nothing(bucket: Bucket, keys: int, arguments: list[str]) -> None:
    with pytest.raises(redis.ResponseError, match="BADARG likes_apply"):
        bucket.ask("EVAL", scripts.text(Script.LIKES_APPLY), keys, *[REGISTRY, INDEX, A, USERS[A]][:keys], *arguments)
    assert bucket.everything() == {}
