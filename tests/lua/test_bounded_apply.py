"""What bounded_apply lets through, what it refuses, and what it remembers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import redis

from redis_counters.protocol.wire import scripts
from redis_counters.protocol.wire.commands import Script
from tests.lua import keyed
from tests.lua.calls import GENERATION, HIGHEST, INDEX, REGISTRY, Bucket
from tests.lua.keyed import BRIEF_LENGTH, BRIEF_TTL, LENGTH, TTL, Asked, answered, bounded
from tests.lua.scenarios import denied, full_memory, read_only

A, B, C = (keyed.bounded_key(name) for name in "abc")


def add(key: bytes, digest: bytes, amount: int, **options: Any) -> Asked:
    return Asked(key, "+", digest, amount, **options)


def spend(key: bytes, digest: bytes, amount: int, **options: Any) -> Asked:
    return Asked(key, "-", digest, amount, **options)


def back(key: bytes, digest: bytes, id: bytes = b"id1", **options: Any) -> Asked:
    return Asked(key, "r", digest, id, **options)


def records(bucket: Bucket) -> dict[bytes, bytes]:
    """Return the texts of all records by digest, without their times."""
    return {
        digest: text.rpartition(b" ")[0] for key in keyed.slices(bucket) for digest, text in bucket.fields(key).items()
    }


# --- rights and room -----------------------------------------------------------------------------------------------


def test_with_a_floor_only_what_was_added_is_spent(bucket: Bucket) -> None:
    """To the last piece, within one call too; one that is too large refuses no other."""
    items = [spend(A, b"early", 1), add(A, b"x", 5), spend(A, b"y", 6), spend(A, b"z", 3), spend(A, b"w", 2)]
    assert answered(bucket, *items, spend(A, b"late", 1)) == [b"0 0", b"1", b"0 5", b"1", b"1", b"0 0"]
    assert bucket.fields(A) == {b"f": b"0", b"a": b"0", b"+": b"5", b"-": b"5"}


def test_with_a_cap_only_what_has_room_is_added(bucket: Bucket) -> None:
    """What is spent makes room, also before anything was added."""
    items = [add(A, b"much", 6), add(A, b"x", 5), add(A, b"y", 1), spend(A, b"z", 7), add(A, b"w", 7)]
    items = [replace(item, floor=None, cap=5) for item in items]
    assert answered(bucket, *items) == [b"0 5", b"1", b"0 0", b"1", b"1"]
    assert bucket.fields(A) == {b"c": b"5", b"h": b"0", b"+": b"12", b"-": b"7"}


def test_with_both_each_makes_what_the_other_uses(bucket: Bucket) -> None:
    items = [add(A, b"much", 11), add(A, b"x", 10), add(A, b"y", 1), spend(A, b"z", 4), add(A, b"w", 4)]
    items = [replace(item, floor=-3, cap=7) for item in [spend(A, b"early", 1), *items, spend(A, b"v", 11)]]
    assert answered(bucket, *items) == [b"0 0", b"0 10", b"1", b"0 0", b"1", b"1", b"0 10"]
    assert bucket.fields(A) == {b"f": b"-3", b"c": b"7", b"a": b"10", b"h": b"0", b"+": b"14", b"-": b"4"}


def test_numbers_beyond_a_double_are_exact(bucket: Bucket) -> None:
    """One more than there is, is too much, up to the highest."""
    answered(bucket, add(A, b"x", 2**53 + 1))
    assert answered(bucket, spend(A, b"y", 2**53 + 2)) == [b"0 9007199254740993"]
    assert answered(bucket, spend(A, b"z", 2**53 + 1)) == [b"1"]
    assert answered(bucket, add(B, b"all", HIGHEST), spend(B, b"all of it", HIGHEST)) == [b"1", b"1"]


def test_a_refusal_makes_no_counter(bucket: Bucket) -> None:
    """Only the record that it was refused."""
    assert answered(bucket, spend(A, b"x", 1), add(B, b"y", 6, cap=5), back(C, b"z")) == [b"0 0", b"0 5", b"0"]
    assert [bucket.fields(key) for key in (A, B, C)] == [{}, {}, {}]
    assert records(bucket) == {b"x": b"-1 0", b"y": b"+6 0", b"z": b"-0 x"}


# --- keys ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("brief", [False, True])
def test_a_key_is_applied_once(bucket: Bucket, brief: bool) -> None:
    """Also within one call; a refusal stays one, though there is enough by now. What there is, is as of now."""
    first = [spend(A, b"no", 5), add(A, b"x", 8), add(A, b"x", 8), spend(A, b"y", 3), spend(A, b"y", 3)]
    first = [replace(item, brief=brief) for item in first]
    assert answered(bucket, *first) == [b"0 0", b"1", b"1", b"1", b"1"]
    before = bucket.fields(A)
    for _ in range(2):
        assert answered(bucket, *first) == [b"0 5", b"1", b"1", b"1", b"1"]
    assert bucket.fields(A) == before == {b"f": b"0", b"a": b"5", b"+": b"8", b"-": b"3"}


def test_a_key_that_was_used_for_something_else(bucket: Bucket) -> None:
    """Is told with what it was used for, done or refused; nothing changes."""
    answered(bucket, add(A, b"x", 8), spend(A, b"y", 3), spend(A, b"z", 9))
    before = bucket.shards()
    items = [add(A, b"x", 9), spend(A, b"x", 8), spend(A, b"y", 2), add(A, b"y", 3), spend(A, b"z", 1), back(A, b"x")]
    assert answered(bucket, *items) == [b"=+8 1", b"=+8 1", b"=-3 1", b"=-3 1", b"=-9 0", b"=+8 1"]
    assert bucket.shards() == before


def test_a_spend_is_given_back_once(bucket: Bucket) -> None:
    """By the call that did it, however often that arrives; for any other, and afterwards, there is nothing."""
    answered(bucket, add(A, b"x", 8), spend(A, b"y", 3), spend(A, b"no", 99))
    items = [back(A, b"y", b"id1"), back(A, b"y", b"id1"), back(A, b"y", b"id2"), back(A, b"no"), back(A, b"no")]
    for _ in range(2):
        assert answered(bucket, *items) == [b"1", b"1", b"0", b"0", b"0"]
    assert bucket.fields(A) == {b"f": b"0", b"a": b"8", b"+": b"11", b"-": b"3"}
    assert answered(bucket, spend(A, b"y", 3), spend(A, b"no", 99)) == [b"=-3 rid1", b"0 8"]


def test_what_is_given_back_makes_rights_and_uses_room(bucket: Bucket) -> None:
    """With a cap there may be none: then it is refused, and may be repeated."""
    bounds: dict[str, Any] = {"floor": 0, "cap": 5}
    answered(bucket, add(A, b"x", 5, **bounds), spend(A, b"y", 3, **bounds), add(A, b"z", 2, **bounds))
    before = bucket.shards()
    assert answered(bucket, back(A, b"y", **bounds)) == [b"0 1"]
    assert bucket.shards() == before
    assert answered(bucket, spend(A, b"w", 2, **bounds), back(A, b"y", **bounds)) == [b"1", b"1"]
    assert bucket.fields(A) == {b"f": b"0", b"c": b"5", b"a": b"5", b"h": b"0", b"+": b"10", b"-": b"5"}


def test_a_spend_that_comes_after_it_was_given_back(bucket: Bucket) -> None:
    """Its first copy was delayed, and the caller gave up: it takes nothing any more, so nothing is stranded."""
    answered(bucket, add(A, b"x", 5))
    assert answered(bucket, back(A, b"y"), spend(A, b"y", 3), back(A, b"y")) == [b"0", b"=-0 x", b"0"]
    assert bucket.fields(A)[b"a"] == b"5"


def test_what_was_spent_of_a_counter_that_is_gone_is_not_given_back(bucket: Bucket) -> None:
    """It would make rights that nobody has."""
    answered(bucket, add(A, b"x", 5), spend(A, b"y", 3))
    bucket.client.delete(A)
    assert answered(bucket, back(A, b"y"), spend(A, b"y", 3)) == [b"0", b"1"]
    assert bucket.fields(A) == {}


@pytest.mark.parametrize(
    ("age", "again"), [(0, b"1"), (TTL // 2, b"1"), (TTL - 1000, b"1"), (TTL, b"0 4"), (3 * TTL // 2, b"0 4")]
)
def test_a_record_holds_for_its_ttl(bucket: Bucket, age: int, again: bytes) -> None:
    """Afterwards the same key spends once more, or is refused; and there is nothing to give back."""
    answered(bucket, add(A, b"x", 9), spend(A, b"y", 5))
    keyed.age(bucket, b"y", age)
    assert answered(bucket, spend(A, b"y", 5)) == [again]


def test_given_back_in_an_earlier_slice(bucket: Bucket) -> None:
    """The record is changed where it is: it expires when it would have, and is found."""
    answered(bucket, add(A, b"x", 9), spend(A, b"y", 5))
    keyed.age(bucket, b"y", LENGTH + 1000)
    (before,) = [key for key in keyed.slices(bucket) if b"y" in bucket.fields(key)]
    assert answered(bucket, back(A, b"y"), back(A, b"y", b"id2")) == [b"1", b"0"]
    assert [key for key in keyed.slices(bucket) if b"y" in bucket.fields(key)] == [before]
    keyed.age(bucket, b"y", TTL)
    assert answered(bucket, back(A, b"y", b"id3")) == [b"0"]


def test_brief_records_are_soon_over(bucket: Bucket) -> None:
    answered(bucket, add(A, b"x", 9), spend(A, b"y", 5, brief=True))
    keyed.age(bucket, b"y", BRIEF_TTL, BRIEF_TTL, BRIEF_LENGTH)
    assert answered(bucket, spend(A, b"y", 4, brief=True)) == [b"1"]
    for key in keyed.slices(bucket):
        if b"x" in bucket.fields(key) or records(bucket).get(b"y") == b"-4 1":
            assert bucket.ask("PTTL", key) <= 2 * int(key.split(b":")[-2]) + LENGTH


def test_every_slice_expires(bucket: Bucket) -> None:
    answered(bucket, *(add(A, b"%d" % i, 1, brief=i % 2 == 0) for i in range(10)), back(A, b"unknown"))
    assert len(keyed.slices(bucket)) >= 2
    for key in keyed.slices(bucket):
        assert 0 < bucket.ask("PTTL", key) <= 2 * int(key.split(b":")[-2])


# --- refusals ------------------------------------------------------------------------------------------------------


def test_other_bounds_than_recorded_are_told(bucket: Bucket) -> None:
    """Whatever is asked, also by a key that is known; nothing changes."""
    answered(bucket, add(A, b"x", 3), add(B, b"b", 3, floor=-1, cap=5), add(C, b"c", 3, floor=None, cap=5))
    before = bucket.shards()
    asked = [add(A, b"x", 3, floor=1), spend(A, b"y", 1, cap=9), back(A, b"x", floor=None, cap=0)]
    asked += [add(B, b"z", 1, floor=-1), add(C, b"z", 1, floor=0, cap=5)]
    assert answered(bucket, *asked) == [b"#0,", b"#0,", b"#0,", b"#-1,5", b"#,5"]
    assert bucket.shards() == before


FOREIGN: dict[str, dict[Any, Any]] = {
    "no bounds": {"a": 5},
    "something else": {"+": 5},
    "rights that are missing": {"f": 0, "+": 5},
    "rights that are negative": {"f": 0, "a": -5},
    "rights that are no number": {"f": 0, "a": "many"},
    "rights with a zero before them": {"f": 0, "a": "05"},
    "rights that are a fraction": {"f": 0, "a": "5.0"},
    "rights beyond int64": {"f": 0, "a": 2**63},
    "room without a cap": {"f": 0, "a": 5, "h": 5},
    "a total that is no number": {"f": 0, "a": 5, "+": "x", "-": "x"},
}


@pytest.mark.parametrize("how", FOREIGN)
def test_a_counter_with_foreign_fields_is_refused_alone(bucket: Bucket, how: str) -> None:
    """And without a record: when it is put right, the same call is applied."""
    bucket.client.hset(B, mapping=FOREIGN[how])
    first, refused, third = answered(bucket, add(A, b"x", 1), add(B, b"y", 1), add(C, b"z", 1))
    assert (first, third) == (b"1", b"1")
    assert refused.startswith(b"!ERR")
    left = {name.decode(): text.decode() for name, text in bucket.fields(B).items()}
    assert {name: text for name, text in left.items() if (name, text) != ("+", "0")} == {
        name: str(value) for name, value in FOREIGN[how].items()
    }
    bucket.client.delete(B)
    assert answered(bucket, add(B, b"y", 1), spend(B, b"w", 1)) == [b"1", b"1"]


def test_a_key_of_another_type_is_refused_alone(bucket: Bucket) -> None:
    bucket.client.set(B, "mine")
    first, refused, third = answered(bucket, add(A, b"x", 1), add(B, b"y", 1), add(C, b"z", 1))
    assert (first, third) == (b"1", b"1")
    assert refused.startswith(b"!WRONGTYPE")


def test_an_unreadable_record_refuses_its_key_alone(bucket: Bucket) -> None:
    answered(bucket, add(A, b"x", 9), spend(A, b"y", 1), spend(A, b"z", 1), spend(A, b"w", 1))
    (name,) = keyed.slices(bucket)
    bucket.client.hset(name, mapping={"y": "rubbish", "z": "rubbish 1"})
    for item in (spend(A, b"y", 1), back(A, b"y"), spend(A, b"z", 1), back(A, b"z")):
        refused, other = answered(bucket, item, spend(A, b"w", 1))
        assert refused.startswith(b"!ERR the record")
        assert other == b"1"
    assert bucket.fields(A)[b"a"] == b"6"


def test_what_is_beyond_int64_is_refused_and_taken_back(bucket: Bucket) -> None:
    """Of a total, of rights, of room: the fields are as before, and there is no record."""
    cap: dict[str, Any] = {"floor": None, "cap": HIGHEST}
    answered(bucket, add(A, b"x", HIGHEST))
    bucket.client.hset(B, mapping={"f": 0, "a": HIGHEST, "+": 0})
    bucket.client.hset(C, mapping={"f": 0, "c": HIGHEST, "a": 9, "h": HIGHEST, "+": 0, "-": 0})
    before = bucket.shards()
    asked = [add(A, b"1", 1), add(B, b"2", 1), spend(C, b"3", 5, cap=HIGHEST)]
    for answer in answered(bucket, *asked):
        assert answer.startswith(b"!ERR")
        assert b"overflow" in answer
    assert bucket.shards() == before
    new = keyed.bounded_key("new")
    (refused,) = answered(bucket, spend(new, b"4", 1, **cap))
    assert b"overflow" in refused
    assert bucket.fields(new) == {b"c": b"%d" % HIGHEST, b"h": b"%d" % HIGHEST, b"-": b"0"}
    assert answered(bucket, add(new, b"5", 1, **cap), spend(new, b"4", 1, **cap)) == [b"1", b"1"]


LEADING = ["gen00", "10000", "1", "20000", "5000", "2", "10000"]
GOOD = ["-", "x", "1", "0", "", "", ""]


@pytest.mark.parametrize(
    "arguments",
    [
        LEADING,
        [*LEADING, *GOOD, "more"],
        *([*LEADING[:n], wrong, *LEADING[n + 1 :], *GOOD] for n in range(1, 7) for wrong in ("x", "-1", "")),
        [*LEADING[:3], "20001", *LEADING[4:], *GOOD],
        [*LEADING[:6], "10001", *GOOD],
        *(
            [*LEADING, *GOOD[:n], wrong, *GOOD[n + 1 :]]
            for n, wrong in [
                (0, "*"),
                (0, ""),
                (2, "0"),
                (2, "-1"),
                (2, "1.5"),
                (2, "01"),
                (2, ""),
                (3, ""),
                (3, "x"),
                (4, "5"),
                (4, "5.5"),
                (5, "5"),
                (6, "c"),
            ]
        ),
        [*LEADING, "r", "x", "", "0", "", "", ""],
        [*LEADING, "-", "x", "1", "0", "9", "-9", ""],
    ],
)
def test_bad_arguments_write_nothing(bucket: Bucket, arguments: list[str]) -> None:
    keys = [REGISTRY, INDEX, *(keyed.slice_key(n) for n in range(8)), A]
    with pytest.raises(redis.ResponseError, match="BADARG bounded_apply"):
        bucket.ask("EVAL", scripts.text(Script.BOUNDED_APPLY), len(keys), *keys, *arguments)
    assert bucket.everything() == {}


def test_who_may_not_write_is_told_before_anything_changes(bucket: Bucket) -> None:
    """Without memory, on a follower, or without one of the rights: effect and record are there, or neither is."""
    answered(bucket, add(A, b"x", 5))
    before = bucket.shards()
    with full_memory(bucket), pytest.raises(redis.ResponseError, match=r"OOM|memory"):
        bounded(bucket, spend(A, b"y", 1))
    with read_only(bucket), pytest.raises(redis.ResponseError):
        bounded(bucket, spend(A, b"y", 1))
    for command in ("hset", "pexpireat", "time", "exists"):
        with denied(bucket, command) as other, pytest.raises(redis.ResponseError):
            bounded(other, spend(A, b"y", 1))
    for command in ("hincrby", "hget"):
        with denied(bucket, command) as other:
            for answer in answered(other, spend(A, b"y", 1), add(B, b"y", 1)):
                assert answer.startswith(b"!")
    assert bucket.shards() == before
    assert answered(bucket, spend(A, b"y", 1)) == [b"1"]


def test_a_registry_is_made_where_there_is_none(bucket: Bucket) -> None:
    assert bounded(bucket, add(A, b"x", 1), generation=b"") == ("UNKNOWN",)
    assert bucket.everything() == {}
    assert answered(bucket, add(A, b"x", 1)) == [b"1"]
    assert bucket.registry() == {b"g": GENERATION, b"n": b"0", b"c": b"0"}


def test_only_the_servers_clock_decides(bucket: Bucket) -> None:
    """Another slice, of either sort, is refused with the time, and nothing is written."""
    for wrong in (0, keyed.now(bucket) // LENGTH, keyed.now(bucket) // BRIEF_LENGTH):
        assert bounded(bucket, add(A, b"x", 1), number=wrong)[0] == "SLICE"
    assert bucket.everything() == {}


def test_many_items_at_once(bucket: Bucket) -> None:
    """1,000 in one call; twice."""
    items = [add(A, b"x", 400), *(spend(A, b"%d" % i, 1) for i in range(1000))]
    for _ in range(2):
        assert answered(bucket, *items) == [b"1"] + 400 * [b"1"] + 600 * [b"0 0"]
    assert bucket.fields(A) == {b"f": b"0", b"a": b"0", b"+": b"400", b"-": b"400"}
