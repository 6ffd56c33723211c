"""What once_apply counts once, for how long, and what it leaves when it may not."""

from __future__ import annotations

import random

import pytest
import redis

from redis_counters.protocol.wire import scripts
from redis_counters.protocol.wire.commands import Script
from tests.lua import keyed
from tests.lua.calls import GENERATION, HIGHEST, INDEX, REGISTRY, Bucket, key
from tests.lua.keyed import LENGTH, TTL, counted, once
from tests.lua.scenarios import denied, full_memory, read_only

A, B, C = key("a"), key("b"), key("c")
ODD = b"\x00\xff %d\r\n"


def test_a_key_counts_once(bucket: Bucket) -> None:
    """Also within one call, also with 0; the base holds the sum, and the record the amount."""
    assert counted(bucket, (A, b"x", 5), (A, b"y", 1), (A, b"x", 5), (B, b"z", 0)) == [b"2", b"1", b"0", b"2"]
    assert counted(bucket, (A, b"x", 5), (A, b"y", 1), (A, ODD, 2), (B, b"z", 0)) == [b"0", b"0", b"1", b"0"]
    assert bucket.value(A) == 8
    assert bucket.value(B) == 0
    records = {digest for name in keyed.slices(bucket) for digest in bucket.fields(name)}
    assert records == {b"x", b"y", b"z", ODD}


def test_another_amount_is_a_conflict(bucket: Bucket) -> None:
    """It is told which was counted, and nothing changes; numbers beyond a double's reach are told apart."""
    counted(bucket, (A, b"x", 2**53), (A, b"y", 0))
    before = bucket.value(A)
    assert counted(bucket, (A, b"x", 2**53 + 1), (A, b"y", 1), (A, b"z", 1)) == [b"=9007199254740992", b"=0", b"1"]
    assert bucket.value(A) == before + 1


def test_a_registry_is_made_where_there_is_none(bucket: Bucket) -> None:
    assert once(bucket, (A, b"x", 1), generation=b"") == ("UNKNOWN",)
    assert bucket.everything() == {}
    assert counted(bucket, (A, b"x", 1), (A, b"y", 1), (B, b"z", 1)) == [b"2", b"1", b"2"]
    assert bucket.registry() == {b"g": GENERATION, b"n": b"1", b"c": b"0"}
    assert bucket.map(A).dot == bucket.map(B).dot == b"gen00.1"
    assert counted(bucket, (A, b"y2", 1), (C, b"z2", 1)) == [b"1", b"2"]
    assert bucket.map(C).dot == b"gen00.2"
    assert bucket.actor() == b"gen00.3.bbbb"


def test_what_does_not_count_makes_no_key(bucket: Bucket) -> None:
    """A counter that was deleted is not there again because somebody repeats an old key."""
    counted(bucket, (A, b"x", 1))
    bucket.client.delete(A)
    assert counted(bucket, (A, b"x", 1)) == [b"0"]
    assert bucket.fields(A) == {}


# --- time ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age", "again"),
    [(0, b"0"), (TTL // 2, b"0"), (TTL - 1000, b"0"), (TTL, b"1"), (TTL + 1, b"1"), (3 * TTL // 2, b"1")],
)
def test_a_record_holds_for_the_ttl_exactly(bucket: Bucket, age: int, again: bytes) -> None:
    """In whichever slice it lies; when it counted once more, that again holds."""
    counted(bucket, (A, b"x", 3))
    keyed.age(bucket, b"x", age)
    assert counted(bucket, (A, b"x", 3)) == [again]
    assert bucket.value(A) == (3 if again == b"0" else 6)
    assert counted(bucket, (A, b"x", 3)) == [b"0"]


def test_after_the_ttl_another_amount_may_count(bucket: Bucket) -> None:
    counted(bucket, (A, b"x", 3))
    keyed.age(bucket, b"x", TTL)
    assert counted(bucket, (A, b"x", 4)) == [b"1"]
    assert counted(bucket, (A, b"x", 3)) == [b"=4"]


def test_every_age_is_found_or_is_over(bucket: Bucket) -> None:
    """At any offset in any slice: younger than the ttl means counted before, in all of 300 random cases."""
    chance = random.Random(5)
    ttls = [1, 500, LENGTH - 1, LENGTH, LENGTH + 1, TTL - 1, TTL]
    seen = set()
    for n in range(300):
        ttl, digest = chance.choice(ttls), b"key %d" % n
        age = chance.randrange(2 * TTL)
        if abs(age - ttl) < 500:  # the server's clock goes on meanwhile
            continue
        written = keyed.now(bucket) - age
        bucket.client.hset(keyed.slice_key(written // LENGTH, ttl), digest, b"1 %d" % (written % LENGTH))
        expected = b"0" if age < ttl else b"1"
        assert counted(bucket, (A, digest, 1), ttl=ttl)[0].replace(b"2", b"1") == expected, (ttl, age)
        seen.add(expected)
    assert seen == {b"0", b"1"}


def test_the_record_of_a_clock_that_was_ahead_holds(bucket: Bucket) -> None:
    """The primary before had written it in a slice that has not begun yet for this one."""
    counted(bucket, (A, b"x", 1))
    keyed.age(bucket, b"x", -LENGTH // 2 - (LENGTH - keyed.now(bucket) % LENGTH))
    assert counted(bucket, (A, b"x", 1)) == [b"0"]


def test_a_slice_expires_as_a_whole_and_never_too_early(bucket: Bucket) -> None:
    """When the last record that it may get has come to its ttl; every slice that has a record has that time."""
    counted(bucket, (A, b"x", 1))
    for n in range(20):
        counted(bucket, (A, b"%d" % n, 1), ttl=TTL if n % 2 else LENGTH)
    assert len(keyed.slices(bucket)) >= 2
    for name in keyed.slices(bucket):
        ttl, number = (int(part) for part in name.split(b":")[-2:])
        left = bucket.ask("PTTL", name)
        ends = (number + 1) * LENGTH + ttl
        assert abs(keyed.now(bucket) + left - ends) < 2000
        assert left > 0


def test_only_the_servers_clock_decides(bucket: Bucket) -> None:
    """A slice that is not that of now is refused with the time, and nothing is written."""
    number = keyed.now(bucket) // LENGTH
    for wrong in (0, number - 5, number + 5):
        word, told = once(bucket, (A, b"x", 1), number=wrong)
        assert word == "SLICE"
        assert abs(int(told) - keyed.now(bucket)) < 5000
    assert bucket.everything() == {}


# --- refusals ------------------------------------------------------------------------------------------------------


def test_a_shard_of_another_type_is_refused_alone(bucket: Bucket) -> None:
    """And without a record: when the key is a counter's again, the same call counts."""
    bucket.client.set(B, "mine")
    first, refused, third = counted(bucket, (A, b"x", 1), (B, b"y", 1), (C, b"z", 1))
    assert (first, third) == (b"2", b"2")
    assert refused.startswith(b"!WRONGTYPE")
    bucket.client.delete(B)
    assert counted(bucket, (A, b"x", 1), (B, b"y", 1), (C, b"z", 1)) == [b"0", b"2", b"0"]


def test_an_unreadable_record_refuses_its_key_alone(bucket: Bucket) -> None:
    counted(bucket, (A, b"x", 1))
    (name,) = keyed.slices(bucket)
    bucket.client.hset(name, b"x", "rubbish")
    refused, other = counted(bucket, (A, b"x", 1), (A, b"y", 1))
    assert refused.startswith(b"!ERR")
    assert other == b"1"
    assert bucket.value(A) == 2


def test_a_slice_of_another_type_refuses_all(bucket: Bucket) -> None:
    """Nothing counts that could not be recorded."""
    number = keyed.now(bucket) // LENGTH
    for n in range(3):
        bucket.client.set(keyed.slice_key(number + n), "mine")
    for answer in counted(bucket, (A, b"x", 1), (B, b"y", 1)):
        assert answer.startswith(b"!WRONGTYPE")
    assert bucket.fields(A) == bucket.fields(B) == {}


def test_a_base_beyond_int64_goes_on_in_another_field(bucket: Bucket) -> None:
    """Every sum is exact; where all sixteen fields are full, the key is refused without a record."""
    amounts = [HIGHEST, HIGHEST, HIGHEST - 1, 1, 1, 2]
    assert counted(bucket, *((A, b"%d" % i, amount) for i, amount in enumerate(amounts))) == [b"2"] + 5 * [b"1"]
    assert bucket.value(A) == sum(amounts)
    bucket.client.hset(B, mapping={f"{i or ''}+": HIGHEST for i in range(16)})
    (refused,) = counted(bucket, (B, b"x", 1))
    assert refused.startswith(b"!")
    assert b"overflow" in refused
    bucket.client.hset(B, "+", 0)
    assert counted(bucket, (B, b"x", 1)) == [b"2"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["gen00", "10000", "1", "20000"],
        ["gen00", "10000", "1", "20000", "x"],
        ["gen00", "10000", "1", "20000", "x", "1", "y"],
        ["gen00", "10000", "1", "20001", "x", "1"],
        ["gen00", "10000", "1", "0", "x", "1"],
        ["gen00", "0", "1", "0", "x", "1"],
        ["gen00", "10000", "-1", "20000", "x", "1"],
        ["gen00", "10000", "1", "20000", "x", "-1"],
        ["gen00", "10000", "1", "20000", "x", "1.5"],
    ],
)
def test_bad_arguments_write_nothing(bucket: Bucket, arguments: list[str]) -> None:
    keys = [REGISTRY, INDEX, *(keyed.slice_key(n) for n in range(4)), A]
    with pytest.raises(redis.ResponseError, match="BADARG once_apply"):
        bucket.ask("EVAL", scripts.text(Script.ONCE_APPLY), len(keys), *keys, *arguments)
    assert bucket.everything() == {}


def test_who_may_not_write_is_told_before_anything_counts(bucket: Bucket) -> None:
    """Without memory, on a follower, or without one of the rights: effect and record are there, or neither is."""
    counted(bucket, (A, b"x", 1))
    before = bucket.shards()
    with full_memory(bucket), pytest.raises(redis.ResponseError, match=r"OOM|memory"):
        once(bucket, (A, b"y", 1))
    with read_only(bucket), pytest.raises(redis.ResponseError):
        once(bucket, (A, b"y", 1))
    for command in ("hset", "pexpireat", "time", "exists"):
        with denied(bucket, command) as other, pytest.raises(redis.ResponseError):
            once(other, (A, b"y", 1))
    with denied(bucket, "hincrby") as other:
        (answer,) = counted(other, (A, b"y", 1))
        assert answer.startswith(b"!")
    assert bucket.shards() == before
    assert counted(bucket, (A, b"y", 1)) == [b"1"]


def test_many_keys_at_once(bucket: Bucket) -> None:
    """2,000 keys in one call, more than Lua unpacks at a time would matter; twice."""
    items = keyed.batch(2000, A)
    assert counted(bucket, *items) == [b"2"] + 1999 * [b"1"]
    assert set(counted(bucket, *items)) == {b"0"}
    assert bucket.value(A) == 2000
