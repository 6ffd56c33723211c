"""What slots_merge does with one actor's totals: the maximum, the answers, the floors."""

from __future__ import annotations

import pytest

from tests.lua.calls import GENERATION, HIGHEST, REGISTRY, Bucket, key

A, B, C = key("a"), key("b"), key("c")
GROWING = [
    pytest.param(9, 10, id="a digit more"),
    pytest.param(2**53, 2**53 + 1, id="not a double"),
    pytest.param(99_999_999_999_999_999, 100_000_000_000_000_000, id="17 and 18 digits"),
    pytest.param(999_999_999_999_999_998, 999_999_999_999_999_999, id="18 digits"),
    pytest.param(1_000_000_000_000_000_000, 1_000_000_000_000_000_001, id="19 digits"),
    pytest.param(HIGHEST - 1, HIGHEST, id="int64"),
]


# --- slots ---------------------------------------------------------------------------------------------------------


def test_a_fresh_total_is_the_slot(bucket: Bucket) -> None:
    """Of a key that was not there, the slot and the dot are all it holds."""
    actor = bucket.actor()
    assert bucket.merge(actor, 1, fresh_plus=[(A, 3)], fresh_minus=[(B, 4)]) == ("OK", 1)
    assert bucket.fields(A) == {actor + b"+": b"3", b"d": GENERATION + b".2"}
    assert bucket.fields(B) == {actor + b"-": b"4", b"d": GENERATION + b".2"}


def test_both_signs_of_one_counter_go_together(bucket: Bucket) -> None:
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 10)], fresh_minus=[(A, 4)])
    assert bucket.value(A) == 6


def test_the_slots_of_others_are_left_alone(bucket: Bucket) -> None:
    first, second = bucket.actor(), bucket.actor(b"secondowner1234")
    bucket.merge(first, 1, fresh_plus=[(A, 5)])
    bucket.merge(second, 1, fresh_plus=[(A, 7)])
    assert bucket.map(A).plus.slots == {first: 5, second: 7}


@pytest.mark.parametrize(("low", "high"), GROWING)
@pytest.mark.parametrize("section", ["fresh_plus", "fresh_minus", "known_plus", "known_minus"])
def test_a_slot_is_the_maximum(bucket: Bucket, section: str, low: int, high: int) -> None:
    """A total raises a lower slot exactly, and a higher slot stays."""
    field = b"+" if section.endswith("plus") else b"-"
    actor = bucket.actor()
    start = section.replace("known", "fresh")
    bucket.merge(actor, 1, **{start: [(A, low)]})  # type: ignore[arg-type] # the names of the sections
    bucket.merge(actor, 2, **{section: [(A, high)]})  # type: ignore[arg-type]
    assert bucket.fields(A)[actor + field] == b"%d" % high
    bucket.merge(actor, 3, **{section: [(A, low)]})  # type: ignore[arg-type]
    assert bucket.fields(A)[actor + field] == b"%d" % high


@pytest.mark.parametrize("fresh", [1, 2, 249, 250, 251, 500, 501])
def test_groups_of_fresh_items_have_no_edges(bucket: Bucket, fresh: int) -> None:
    """Every second key has a slot of somebody else's: each item is applied, at whatever place in its group."""
    items = [(key(i), i + 1) for i in range(fresh)]
    other = bucket.actor(b"otherowner1234")
    bucket.merge(other, 1, fresh_plus=items[::2])
    actor = bucket.actor()
    assert bucket.merge(actor, 1, fresh_plus=items) == ("OK", 1)
    assert {name: bucket.map(name).plus.slots[actor] for name, _ in items} == dict(items)
    assert all(bucket.map(name).dot for name, _ in items)


def test_the_largest_batch_goes_through(bucket: Bucket) -> None:
    """2,000 items of a kind, all told one way, then all the other ways: no list is too long for Lua."""
    actor = bucket.actor()
    items = [(key(i), i + 1) for i in range(2000)]
    assert bucket.merge(actor, 1, fresh_plus=items) == ("OK", 1)
    assert bucket.merge(actor, 2, 1, known_plus=[(name, total + 1) for name, total in items]) == ("OK", 2)
    bucket.client.delete(*(name for name, _ in items))
    answer = bucket.merge(actor, 3, 2, known_plus=[(name, total + 2) for name, total in items])
    assert answer == ("MISSING", *range(1, 2001))
    floored = [(name, total + 2, total + 1) for name, total in items]
    assert bucket.merge(actor, 4, 2, floored_plus=floored) == ("OK", 4)
    assert {bucket.value(name) for name, _ in items} == {1}
    bucket.client.flushall()
    actor = bucket.actor()
    for name, _ in items:
        bucket.client.set(name, "x")
    refused = bucket.merge(actor, 1, fresh_plus=items)
    assert (refused[1], refused[2::2]) == (1, tuple(range(1, 2001)))


# --- the answers ---------------------------------------------------------------------------------------------------


def test_the_record_tells_the_last_flush(bucket: Bucket) -> None:
    """State, seq, the server's time, owner and display name."""
    actor = bucket.actor()
    bucket.merge(actor, 7, fresh_plus=[(A, 1)])
    state, seq, seen, owner, display = bucket.record(actor)
    assert (state, seq, owner, display) == (b"o", b"7", b"aaaaabbbbcccccccc", b"test")
    now = bucket.ask("TIME")[0]
    assert now - 60 < int(seen) <= now


@pytest.mark.parametrize("seq", [1, 4, 5])
def test_a_late_copy_is_stale(bucket: Bucket, seq: int) -> None:
    """A number not above the recorded one: the answer tells that, and nothing is written, higher totals or not."""
    actor = bucket.actor()
    bucket.merge(actor, 5, fresh_plus=[(A, 10)])
    before = bucket.everything()
    assert bucket.merge(actor, seq, fresh_plus=[(A, 11), (B, 1)], widened=[(A, 4)]) == ("STALE", 5)
    assert bucket.everything() == before


def test_a_repeated_flush_changes_nothing(bucket: Bucket) -> None:
    """With a new number, as a client repeats it: every shard is the same, byte for byte."""
    actor = bucket.actor()
    for name in (A, B):
        bucket.merge(actor, 1 if name == A else 2, fresh_plus=[(name, 5)], fresh_minus=[(name, 6)])
    bucket.client.delete(B)

    def flush(seq: int) -> None:
        answer = bucket.merge(
            actor,
            seq,
            2,
            fresh_plus=[(C, 7)],
            fresh_minus=[(C, 1)],
            known_plus=[(A, 8)],
            known_minus=[(A, 9)],
            floored_plus=[(B, 8, 5)],
            floored_minus=[(B, 9, 6)],
            widened=[(key("k"), 16)],
        )
        assert answer == ("OK", seq)

    flush(3)
    once = bucket.shards()
    flush(4)
    assert bucket.shards() == once
    assert [bucket.value(name) for name in (A, B, C)] == [-1, 0, 6]


def test_a_fail_over_is_noticed(bucket: Bucket) -> None:
    """The owner saw a higher number acknowledged than is recorded: nothing is written, and the answer tells which."""
    actor = bucket.actor()
    bucket.merge(actor, 3, fresh_plus=[(A, 1)])
    before = bucket.everything()
    assert bucket.merge(actor, 9, 4, fresh_plus=[(A, 2), (B, 1)]) == ("REGRESS", 3)
    assert bucket.everything() == before
    assert bucket.merge(actor, 9, 3, fresh_plus=[(A, 2), (B, 1)]) == ("OK", 9)


@pytest.mark.parametrize("folded", [False, True])
def test_a_closed_actor_is_told_so(bucket: Bucket, folded: bool) -> None:
    actor = bucket.actor()
    bucket.merge(actor, 3, fresh_plus=[(A, 1)])
    bucket.close(actor)
    if folded:
        bucket.fold(actor, A)
    before = bucket.everything()
    assert bucket.merge(actor, 4, 3, known_plus=[(A, 2)], fresh_plus=[(B, 1)]) == ("CLOSED", 3)
    assert bucket.everything() == before


@pytest.mark.parametrize("record", [None, "", "o", "o x 1 owner name"])
def test_an_actor_without_a_readable_record_is_unknown(bucket: Bucket, record: str | None) -> None:
    actor = bucket.actor()
    bucket.client.hdel(REGISTRY, actor)
    if record is not None:
        bucket.client.hset(REGISTRY, actor, record)
    before = bucket.everything()
    assert bucket.merge(actor, 1, fresh_plus=[(A, 1)]) == ("UNKNOWN",)
    assert bucket.everything() == before


def test_a_missing_slot_refuses_the_whole_flush(bucket: Bucket) -> None:
    """The items are numbered over all sections; nothing is written, and the recorded number stays."""
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 1), (B, 1)], fresh_minus=[(A, 1), (B, 1)])
    bucket.client.delete(B)
    before = bucket.everything()
    fresh, known = [(C, 1)], [(A, 2), (B, 2)]
    answer = bucket.merge(actor, 2, 1, fresh_plus=fresh, fresh_minus=fresh, known_plus=known, known_minus=known)
    assert answer == ("MISSING", 4, 6)
    assert bucket.everything() == before
    assert bucket.record(actor)[1] == b"1"


def test_a_slot_is_missing_where_only_its_own_field_is_gone(bucket: Bucket) -> None:
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 1)], fresh_minus=[(A, 1)])
    bucket.client.hdel(A, actor + b"-")
    assert bucket.merge(actor, 2, 1, known_plus=[(A, 2)], known_minus=[(A, 2)]) == ("MISSING", 2)


# --- floors --------------------------------------------------------------------------------------------------------


def test_deleted_counts_stay_deleted_and_later_ones_count(bucket: Bucket) -> None:
    """The slot stays cumulative; below it lies what had been acknowledged."""
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, HIGHEST - 5)])
    bucket.client.delete(A)
    assert bucket.merge(actor, 2, 1, floored_plus=[(A, HIGHEST - 2, HIGHEST - 5)]) == ("OK", 2)
    assert bucket.fields(A)[b"~" + actor + b"+"] == b"%d" % (HIGHEST - 5)
    assert bucket.value(A) == 3
    assert bucket.merge(actor, 3, 2, known_plus=[(A, HIGHEST)]) == ("OK", 3)
    assert bucket.value(A) == 5


def test_a_slot_that_is_back_gets_no_floor(bucket: Bucket) -> None:
    """An earlier copy of the flush wrote slot and floor: the next raises the slot, the floor stays as it was."""
    actor = bucket.actor()
    bucket.merge(actor, 1, floored_plus=[(A, 9, 4)], floored_minus=[(B, 9, 4)])
    bucket.merge(actor, 2, floored_plus=[(A, 12, 9)], floored_minus=[(B, 12, 9)])
    assert (bucket.value(A), bucket.value(B)) == (8, -8)
    bucket.merge(actor, 3, floored_plus=[(A, 10, 9)])
    assert bucket.value(A) == 8


# --- the number of shards ------------------------------------------------------------------------------------------


def test_the_number_of_shards_only_grows(bucket: Bucket) -> None:
    actor = bucket.actor()
    for seq, (told, kept) in enumerate([(8, 8), (16, 16), (9, 16), (16, 16), (1024, 1024), (128, 1024)], 1):
        assert bucket.merge(actor, seq, widened=[(A, told)]) == ("OK", seq)
        assert bucket.map(A).shards == kept


def test_a_widened_key_that_was_not_there_has_a_dot(bucket: Bucket) -> None:
    actor = bucket.actor()
    bucket.merge(actor, 1, widened=[(A, 8)])
    assert bucket.fields(A) == {b"k": b"8", b"d": GENERATION + b".2"}


def test_an_exact_flush_rests_on_its_base_alone(bucket: Bucket) -> None:
    """After a fail-over a late copy may move the record on: then nothing is written, and the owner learns of it."""
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 1)])
    bucket.merge(actor, 4, 1, fresh_plus=[(B, 1)])
    before = bucket.everything()
    assert bucket.merge(actor, 7, 1, exact=True, known_plus=[(A, 5)]) == ("REGRESS", 4)
    assert bucket.merge(actor, 7, 5, exact=True, known_plus=[(A, 5)]) == ("REGRESS", 4)
    assert bucket.everything() == before
    assert bucket.merge(actor, 7, 4, exact=True, known_plus=[(A, 5)]) == ("OK", 7)
