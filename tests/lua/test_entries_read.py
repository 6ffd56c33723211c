"""What a shard tells other regions is what the algebra says of its fields; its digest is of what counts."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from redis_counters.crdt.regional import as_text, parse_fields, parse_text
from redis_counters.crdt.slotmap import SlotMap, format_fields
from redis_counters.protocol.wire import scripts
from redis_counters.protocol.wire.commands import Script
from tests.crdt.test_regional import entries, own_dots, places
from tests.crdt.test_slotmap import slot_maps
from tests.lua import keyed
from tests.lua.calls import Bucket, key
from tests.lua.regions import digest, drop, join, merged_key, read, repair
from tests.lua.scenarios import full_memory, read_only

A, B, C = key("a"), key("b"), key("c")
Entries = Mapping[bytes, tuple[int, ...]]
one_line = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def fields_of(shard: SlotMap, others: Entries, own: Entries) -> dict[bytes, bytes]:
    """Return the fields of a shard with entries of other regions, by place, and of this one, by dot."""
    fields = {b"d": b"gen00.2", **format_fields(shard)}
    for place, entry in [*others.items(), *((b"/" + dot, entry) for dot, entry in own.items())]:
        for prefix, numbers in ((b"@", entry[:2]), (b"~@", entry[2:])):
            fields |= {prefix + place + sign: b"%d" % n for sign, n in zip((b"+", b"-"), numbers, strict=True)}
    return fields


# --- entries_read --------------------------------------------------------------------------------------------------


@one_line
@given(
    shard=slot_maps,
    others=st.dictionaries(places, entries),
    own=st.dictionaries(own_dots, entries),
    without=st.sampled_from([b"", b"eu", b"us", b"here"]),
)
def test_it_tells_what_the_algebra_says(
    any_bucket: Bucket,
    shard: SlotMap,
    others: Entries,
    own: Entries,
    without: bytes,
) -> None:
    """Of any fields; of the region that asks, only what has a floor."""
    any_bucket.client.flushall()
    fields = fields_of(shard, others, own)
    any_bucket.client.hset(A, mapping=fields)  # type: ignore[arg-type]
    (text,) = read(any_bucket, A, region=b"here", without=without)
    expected = parse_fields(fields, b"here")
    assert text == as_text(expected.without(without) if without else expected)
    assert parse_text(text) == (expected.without(without) if without else expected)


def test_sums_are_exact(bucket: Bucket) -> None:
    """However large and many the counts are, and however small their difference."""
    chance = random.Random(1)
    for size in (1, 2, 9, 10, 11, 19, 20, 21, 39):
        numbers = [chance.randrange(10**size) for _ in range(40)]
        fields: dict[Any, Any] = {f"g.{n}.own+": number for n, number in enumerate(numbers)}
        bucket.client.delete(A)
        bucket.client.hset(A, mapping={"d": "g.0", **fields, "~g.1.own+": numbers[1], "-": 10**size - 1})
        assert read(bucket, A) == [b"0 0 eu/g.0,%d,%d" % (sum(numbers) - numbers[1], 10**size - 1)]


def test_many_slots_of_the_highest_number(bucket: Bucket) -> None:
    slots: dict[Any, Any] = {f"g.{n}.own-": 2**63 - 1 for n in range(20_000)}
    bucket.client.hset(A, mapping={"d": "g.0", **slots})
    assert read(bucket, A) == [b"0 0 eu/g.0,0,%d" % (20_000 * (2**63 - 1))]


def test_what_is_not_there_is_empty(bucket: Bucket) -> None:
    """No such key; sealed; and again where a key is named again."""
    bucket.client.hset(A, mapping={"d": "g.0", "+": 5})
    bucket.seal(B)
    assert read(bucket, A, B, C, A) == [b"0 0 eu/g.0,5", b"", b"", b"0 0 eu/g.0,5"]


def test_what_is_all_zero_is_left_out(bucket: Bucket) -> None:
    bucket.client.hset(A, mapping={"d": "g.0", "+": 0, "@us/g.0+": 0, "~@us/g.0-": 0, "k": 1})
    bucket.client.hset(B, mapping={"d": "g.0", "k": 16})
    assert read(bucket, A, B) == [b"0 0", b"16 0"]


def test_of_the_region_that_asks_nothing_is_told_but_floors(bucket: Bucket) -> None:
    """However few fields there are."""
    bucket.client.hset(A, mapping={"d": "g.0", "g.1.own+": 5})
    bucket.client.hset(B, mapping={"d": "g.0", "+": 5, "@us/g.0+": 7})
    bucket.client.hset(C, mapping={"d": "g.0", "@us/g.0+": 7, "~@us/g.0+": 7})
    assert read(bucket, A, B, C, without=b"us") == [b"0 0 eu/g.0,5", b"0 0 eu/g.0,5", b"0 0 us/g.0,7,0,7"]
    assert read(bucket, A, B, C, without=b"eu") == [b"0 0", b"0 0 us/g.0,7", b"0 0 us/g.0,7,0,7"]


def test_other_fields_are_none_of_it(bucket: Bucket) -> None:
    bucket.client.hset(A, mapping={"d": "g.0", "o": 4, "z": "-", "x@y+": 5, "~x@y+": 5, "": "", "u": "text"})
    assert read(bucket, A) == [b"0 0"]


@pytest.mark.parametrize(
    ("field", "count", "error"),
    [
        ("+", "-5", b"+ is no count"),
        ("g.1.x-", "1.5", b"g.1.x- is no count"),
        ("g.1.x-", "1e300", b"g.1.x- is no count"),
        ("@us/g.0+", "1.5", b"@us/g.0+ is no count"),
        ("~@us/g.0-", "", b"~@us/g.0- is no count"),
        ("~@/g.0-", "-", b"~@/g.0- is no count"),
        ("@us /g.0+", "1", b"@us /g.0+ names no entry"),
        ("@us/g,0+", "1", b"@us/g,0+ names no entry"),
        ("@us/g.0/1\n+", "1", b"@us/g.0/1\n+ names no entry"),
        ("@us/+", "1", b"@us/+ names no entry"),
        ("k", "many", b"k is no number"),
        ("~g.1.x+", "50", b"its floors are above its slots"),
    ],
)
def test_an_entry_that_cannot_be_told_is_left_out_and_told_of(
    bucket: Bucket, field: str, count: str, error: bytes
) -> None:
    """All of that one, and nothing else: what is told is what would be told without it."""
    fields: Any = {"d": "g.0", "g.1.x+": 7, "@ap/g.0+": 8, "@us/g.0+": 9, "@us/g.0-": 1, "~@us/g.0+": 2, "@/g.9+": 3}
    bucket.client.hset(A, mapping=fields)
    whole = b"0 0 ap/g.0,8 eu/g.0,7 eu/g.9,3 us/g.0,9,1,2"
    assert read(bucket, A) == [whole]
    bucket.client.hset(A, field, count)
    bucket.client.hset(B, mapping={"d": "g.0", "+": 1})
    left = whole
    if "@us/g.0" in field and error.endswith(b"count"):
        left = whole.replace(b" us/g.0,9,1,2", b"")
    elif field == "~@/g.0-" or ("@" not in field and field != "k"):
        left = whole.replace(b" eu/g.0,7", b"")
    assert read(bucket, A, B) == [left + b"\n!ERR " + error, b"0 0 eu/g.0,1"]
    assert read(bucket, A, shown=True) == [left + b"\n!ERR " + error]


def test_what_peers_have_told_back_of_the_live_dot_is_shown(bucket: Bucket) -> None:
    """To who looks, not to who merges; also when as much was counted since. Of earlier dots that is as it should be."""
    bucket.client.hset(A, mapping={"d": "g.1", "g.1.x+": 7, "g.1.x-": 1, "@/g.1+": 9, "~@/g.1+": 2, "@us/g.0+": 1})
    text = b"0 0 eu/g.1,9,1,2 us/g.0,1"
    assert read(bucket, A, shown=True) == [text + b"\n?eu/g.1,9,0,2,0,7,1"]
    assert read(bucket, A) == [text]
    bucket.client.hset(A, "g.1.x+", 20)
    assert read(bucket, A, shown=True) == [b"0 0 eu/g.1,20,1,2 us/g.0,1\n?eu/g.1,9,0,2,0,20,1"]
    bucket.client.hset(A, "d", "g.2")
    assert b"?" not in read(bucket, A, shown=True)[0]
    bucket.client.hset(A, "~@/g.2+", 3)
    assert b"?" not in read(bucket, A, shown=True)[0]


def test_a_key_of_another_sort_is_told_in_its_place(bucket: Bucket) -> None:
    bucket.client.set(A, "mine")
    bucket.client.rpush(B, "mine")
    bucket.client.hset(C, "+", 1)
    texts = read(bucket, A, B, C)
    assert [text[:10] for text in texts] == [b"!WRONGTYPE", b"!WRONGTYPE", b"!ERR it ha"]
    bucket.client.hset(C, "d", "no dot")
    assert read(bucket, C) == [b"!ERR it has no dot"]


def test_when_it_expires(bucket: Bucket) -> None:
    """To the millisecond where the server can say so (7.0), else some milliseconds early; never late."""
    at = keyed.now(bucket) + 900_000
    bucket.client.hset(A, mapping={"d": "g.0", "+": 1})
    bucket.client.pexpireat(A, at)
    for _ in range(20):
        (text,) = read(bucket, A)
        assert at - 1000 < parse_text(text).expiry <= at


def test_reading_needs_no_memory_and_no_primary(bucket: Bucket) -> None:
    bucket.client.hset(A, mapping={"d": "g.0", "+": 1})
    with full_memory(bucket):
        assert read(bucket, A) == [b"0 0 eu/g.0,1"]
        assert digest(bucket, A)[2] == 1
    with read_only(bucket):
        assert read(bucket, A) == [b"0 0 eu/g.0,1"]
        assert digest(bucket, A)[2] == 1


@pytest.mark.parametrize("arguments", [[], ["eu", ""], ["", "", "0"], ["eu", "", ""], ["eu", "", "0", ""]])
def test_bad_arguments_are_told(bucket: Bucket, arguments: list[str]) -> None:
    with pytest.raises(redis.ResponseError, match="BADARG entries_read"):
        bucket.ask("EVAL", scripts.text(Script.ENTRIES_READ), 1, A, *arguments)


# --- entries_digest ------------------------------------------------------------------------------------------------


def test_it_is_equal_where_what_counts_is_equal(bucket: Bucket) -> None:
    """In whatever order; however it came to be; whichever region tells it."""
    bucket.client.hset(A, mapping={"d": "gen00.7", "g.1.own+": 4, "+": 3, "@us/g.0+": 9})
    bucket.client.hset(B, mapping={"d": "x.1", "k": 4})
    found = digest(bucket, A, B, C)
    assert found[2] == 2
    assert digest(bucket, B, C, A) == found
    bucket.client.delete(A)
    bucket.client.hset(A, mapping={"d": "us.5", "@eu/gen00.7+": 7, "@/g.0+": 9})
    bucket.client.pexpireat(A, keyed.now(bucket) + 900_000)
    assert digest(bucket, A, B, C, region=b"us") == found


def test_it_differs_where_anything_that_counts_does(bucket: Bucket) -> None:
    """Also by one in two places of two shards, which a plain sum would not see."""
    seen = set()
    for first, second in itertools.product(range(12), repeat=2):
        for name, count in ((A, first), (B, second)):
            bucket.client.hset(name, mapping={"d": "g.0", "+": 50 + count})
        seen.add(digest(bucket, A, B))
    assert len(seen) == 144
    before = digest(bucket, A)
    for field, value in (("-", 1), ("k", 2), ("@us/g.0+", 1), ("~@us/g.0-", 1), ("~@/g.0+", 1)):
        bucket.client.hset(A, field, value)
        assert digest(bucket, A) != before, field
        before = digest(bucket, A)
    bucket.client.rename(A, C)
    assert digest(bucket, C)[1] != before[1]
    assert digest(bucket, C)[2] == before[2]


def test_what_may_be_dropped_is_none_of_it(bucket: Bucket) -> None:
    """So dropping changes no digest; and a shard without content is as none."""
    join(bucket)
    empty = digest(bucket, C)
    repair(bucket, (A, b"0 0 us/g.0,5,2,5,2"), (B, b"0 0 us/g.0,5,2,5,2 us/g.1,3"))
    found = digest(bucket, A, B)
    assert digest(bucket, A) == empty == ("OK", b"0", 0)
    assert drop(bucket, A, B, indexes=[merged_key()]) == ("OK", 2)
    assert digest(bucket, A, B) == found


def test_it_reaches_its_whole_range(bucket: Bucket) -> None:
    """Digests of a thousand shards, alone, are all different, and lie everywhere below 2^44."""
    names = [key(i) for i in range(1000)]
    for name in names:
        bucket.client.hset(name, mapping={"d": "g.0", "+": 1})
    found = [int(value) for _, value, _ in (digest(bucket, name) for name in names)]
    assert len(set(found)) == 1000
    assert max(found) < 2**44
    buckets = [sum(1 for value in found if value * 16 // 2**44 == n) for n in range(16)]
    assert min(buckets) > 30


@pytest.mark.parametrize("arguments", [[], [""], ["eu", ""]])
def test_bad_arguments_of_the_digest_are_told(bucket: Bucket, arguments: list[str]) -> None:
    with pytest.raises(redis.ResponseError, match="BADARG entries_digest"):
        bucket.ask("EVAL", scripts.text(Script.ENTRIES_DIGEST), 1, A, *arguments)
