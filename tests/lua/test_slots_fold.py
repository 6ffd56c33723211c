"""What slots_fold gathers into the base, and that no value ever changes by it."""

from __future__ import annotations

import pytest

from redis_counters.protocol.wire.commands import Script
from tests.lua.calls import HIGHEST, REGISTRY, Bucket, key
from tests.lua.scenarios import denied, full_memory, read_only

A, B = key("a"), key("b")
OTHER = b"otherowner1234"


def test_slots_are_in_the_base_and_gone(bucket: Bucket) -> None:
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 7), (B, 2**53 + 1)], fresh_minus=[(A, 3)])
    assert bucket.end(actor, A, B) == ("OK", 3)
    assert bucket.fields(A) == {b"+": b"7", b"-": b"3", b"d": b"gen00.2"}
    assert bucket.fields(B) == {b"+": b"%d" % (2**53 + 1), b"d": b"gen00.2"}
    assert bucket.record(actor)[:2] == [b"f", b"1"]


def test_the_slots_of_others_stay(bucket: Bucket) -> None:
    actor, other = bucket.actor(), bucket.actor(OTHER)
    bucket.merge(actor, 1, fresh_plus=[(A, 7)])
    bucket.merge(other, 1, fresh_plus=[(A, 5)], fresh_minus=[(A, 1)])
    bucket.end(actor, A)
    assert bucket.map(A).actors == {other}
    assert bucket.value(A) == 11


def test_a_floor_goes_with_its_slot(bucket: Bucket) -> None:
    """Only what lies above it comes into the base."""
    actor = bucket.actor()
    bucket.merge(actor, 1, floored_plus=[(A, HIGHEST, HIGHEST - 3)], floored_minus=[(A, 9, 8)])
    assert bucket.value(A) == 2
    bucket.end(actor, A)
    assert bucket.fields(A) == {b"+": b"3", b"-": b"1", b"d": b"gen00.2"}


@pytest.mark.parametrize("floor", [0, 9])
def test_a_floor_may_be_nothing_or_all(bucket: Bucket, floor: int) -> None:
    actor = bucket.actor()
    bucket.merge(actor, 1, floored_plus=[(A, 9, floor)])
    assert bucket.end(actor, A) == ("OK", 1)
    assert bucket.fields(A) == {b"+": b"%d" % (9 - floor), b"d": b"gen00.2"}


@pytest.mark.parametrize("sign", [b"+", b"-"])
def test_a_base_beyond_int64_goes_on_in_another_field(bucket: Bucket, sign: bytes) -> None:
    """Five slots of almost int64, some of them with floors: the value is their sum, at every step."""
    slots = [HIGHEST, HIGHEST, HIGHEST - 1, HIGHEST, HIGHEST]
    actors = [bucket.actor(b"owner%dxxxx" % i) for i in range(len(slots))]
    floored = "floored_plus" if sign == b"+" else "floored_minus"
    for actor, slot in zip(actors, slots, strict=True):
        bucket.merge(actor, 1, **{floored: [(A, slot, 1)]})  # type: ignore[arg-type] # the name of a section
    value = bucket.value(A)
    assert abs(value) == sum(slots) - len(slots)
    for actor in actors:
        assert bucket.end(actor, A) == ("OK", 1)
        assert bucket.value(A) == value
    assert bucket.map(A).actors == frozenset()
    assert set(bucket.fields(A)) == {b"d", sign, *(b"%d" % i + sign for i in range(1, 5))}


def test_a_slot_that_still_fits_goes_into_the_first_base(bucket: Bucket) -> None:
    first, second, third = (bucket.actor(b"owner%dxxxx" % i) for i in range(3))
    bucket.merge(first, 1, fresh_plus=[(A, HIGHEST - 1)])
    bucket.merge(second, 1, fresh_plus=[(A, 2)])
    bucket.merge(third, 1, fresh_plus=[(A, 1)])
    for actor in (first, second, third):
        bucket.end(actor, A)
    assert bucket.fields(A) == {b"+": b"%d" % HIGHEST, b"1+": b"2", b"d": b"gen00.4"}


def test_folded_twice_is_folded_once(bucket: Bucket) -> None:
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 7)], floored_minus=[(A, 3, 1)])
    assert bucket.end(actor, A) == ("OK", 2)
    once = bucket.everything()
    assert bucket.fold(actor, A) == ("OK", 0)
    assert bucket.fold(actor, A, A) == ("OK", 0)
    assert bucket.everything() == once


def test_a_key_named_twice_is_folded_once(bucket: Bucket) -> None:
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 7)])
    assert bucket.end(actor, A, A) == ("OK", 1)
    assert bucket.value(A) == 7


def test_keys_that_are_not_there_stay_so(bucket: Bucket) -> None:
    """Also those that never saw this actor."""
    actor, other = bucket.actor(), bucket.actor(OTHER)
    bucket.merge(other, 1, fresh_plus=[(B, 1)])
    before = bucket.shards()
    assert bucket.end(actor, A, B) == ("OK", 0)
    assert bucket.shards() == before


def test_folding_goes_in_pieces(bucket: Bucket) -> None:
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 1), (B, 2)])
    assert bucket.end(actor, A) == ("OK", 1)
    assert bucket.fold(actor, B) == ("OK", 1)
    assert (bucket.value(A), bucket.value(B)) == (1, 2)


def test_without_keys_the_actor_is_folded(bucket: Bucket) -> None:
    """It had no slot: the record says so from now on."""
    actor = bucket.actor()
    assert bucket.close(actor)[0] == "OK"
    assert bucket.fold(actor) == ("OK", 0)
    assert bucket.record(actor)[0] == b"f"


def test_the_largest_batch_goes_through(bucket: Bucket) -> None:
    """2,000 shards, all folded; 2,000 keys of another type, all refused."""
    actor = bucket.actor()
    names = [key(i) for i in range(2000)]
    bucket.merge(actor, 1, fresh_plus=[(name, 1) for name in names])
    assert bucket.end(actor, *names) == ("OK", 2000)
    for name in names:
        bucket.client.set(name, "x")
    answer = bucket.fold(actor, *names)
    assert (answer[1], answer[2::2]) == (0, tuple(range(1, 2001)))


# --- when ----------------------------------------------------------------------------------------------------------


def test_who_was_closed_lately_is_not_folded_by_others(bucket: Bucket) -> None:
    """A fail-over might open him again; his owner, who tells nothing any more, need not wait."""
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 7)])
    bucket.age(actor, 1000)
    bucket.close(actor)  # it is closing that counts, not the last flush
    before = bucket.everything()
    assert bucket.fold(actor, A, delay=60) == ("EARLY",)
    assert bucket.everything() == before
    bucket.age(actor, 61)
    assert bucket.fold(actor, A, delay=60) == ("OK", 1)
    other = bucket.actor(OTHER)
    bucket.merge(other, 1, fresh_plus=[(A, 7)])
    assert bucket.end(other, A) == ("OK", 1)


def test_a_fold_that_was_begun_may_go_on_at_once(bucket: Bucket) -> None:
    """And keeps the time when it began."""
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 7), (B, 1)])
    bucket.end(actor, A)
    bucket.age(actor, 10)
    begun = bucket.record(actor)
    assert bucket.fold(actor, B, delay=1000) == ("OK", 1)
    assert bucket.record(actor) == begun


def test_the_record_tells_when_folding_began(bucket: Bucket) -> None:
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 7)])
    _, _, _, owner, display = bucket.record(actor)
    bucket.close(actor)
    bucket.age(actor, 1000)
    now = bucket.now()
    bucket.fold(actor, A)
    state, seq, seen, *rest = bucket.record(actor)
    assert (state, seq, rest) == (b"f", b"1", [owner, display])
    assert now <= int(seen) <= now + 5


@pytest.mark.parametrize("delay", ["", "x", "-1", "1.5"])
def test_a_delay_that_is_no_number_is_refused(bucket: Bucket, delay: str) -> None:
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 7)])
    bucket.close(actor)
    before = bucket.everything()
    with pytest.raises(Exception, match="BADARG slots_fold: delay"):
        bucket.call(Script.SLOTS_FOLD, [REGISTRY, A], [actor, delay.encode()])
    assert bucket.everything() == before


# --- refused -------------------------------------------------------------------------------------------------------


def test_an_open_actor_is_not_folded(bucket: Bucket) -> None:
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 7)])
    before = bucket.everything()
    assert bucket.fold(actor, A) == ("OPEN",)
    assert bucket.everything() == before


@pytest.mark.parametrize("record", [None, "", "c", "c x 1 owner name"])
def test_an_actor_without_a_readable_record_is_not_folded(bucket: Bucket, record: str | None) -> None:
    """Its owner may put the record back and tell all totals again: what is folded would count twice."""
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 7)])
    bucket.client.hdel(REGISTRY, actor)
    if record is not None:
        bucket.client.hset(REGISTRY, actor, record)
    before = bucket.everything()
    assert bucket.fold(actor, A) == ("UNKNOWN",)
    assert bucket.everything() == before


@pytest.mark.parametrize("place", [0, 25, 50])
def test_a_key_of_another_type_is_refused_alone(bucket: Bucket, place: int) -> None:
    actor = bucket.actor()
    names = [key(i) for i in range(51)]
    bucket.merge(actor, 1, fresh_plus=[(name, 4) for name in names])
    bucket.client.set(names[place], "mine")
    answer = bucket.end(actor, *names)
    assert answer[:3] == ("OK", 50, place + 1)
    assert str(answer[3]).startswith("b'WRONGTYPE Operation")
    assert bucket.client.get(names[place]) == b"mine"
    assert {bucket.fields(name)[b"+"] for i, name in enumerate(names) if i != place} == {b"4"}


@pytest.mark.parametrize("spoilt", ["slot", "floor", "both"])
@pytest.mark.parametrize("text", ["", "abc", "-5", "007", "1.5", "9223372036854775808", "1e3"])
def test_a_slot_that_is_no_count_is_refused_alone(bucket: Bucket, spoilt: str, text: str) -> None:
    """It stays as it is, floor and all, and no field comes to it; its neighbours are folded."""
    actor = bucket.actor()
    bucket.merge(actor, 1, floored_plus=[(A, 9, 4)], fresh_plus=[(B, 9)], fresh_minus=[(A, 3)])
    if spoilt != "floor":
        bucket.client.hset(A, actor + b"+", text)
    if spoilt != "slot":
        bucket.client.hset(A, b"~" + actor + b"+", text)
    before = bucket.fields(A)
    answer = bucket.end(actor, A, B)
    assert answer[:3] == ("OK", 2, 1)
    assert "not a count" in str(answer[3])
    assert bucket.fields(B)[b"+"] == b"9"
    assert bucket.fields(A) == {name: raw for name, raw in before.items() if name != actor + b"-"} | {b"-": b"3"}


def test_a_floor_above_its_slot_is_refused_alone(bucket: Bucket) -> None:
    """Somebody wrote it by hand: in the base it would be a negative count, which no reader takes."""
    actor = bucket.actor()
    bucket.merge(actor, 1, floored_plus=[(A, 9, 4)], fresh_plus=[(B, 9)])
    bucket.client.hset(A, b"~" + actor + b"+", 10)
    before = bucket.fields(A)
    assert bucket.end(actor, A, B)[:3] == ("OK", 1, 1)
    assert bucket.fields(A) == before


@pytest.mark.parametrize("floor", [0, 4])
def test_a_base_that_is_no_number_is_passed_over(bucket: Bucket, floor: int) -> None:
    """Somebody wrote into it by hand: it stays for them to see, and the slot is not lost."""
    actor = bucket.actor()
    bucket.merge(actor, 1, floored_plus=[(A, 9, floor)])
    bucket.client.hset(A, "+", "abc")
    assert bucket.end(actor, A) == ("OK", 1)
    assert bucket.fields(A) == {b"+": b"abc", b"1+": b"%d" % (9 - floor), b"d": b"gen00.2"}


def test_a_slot_that_fits_nowhere_is_refused_alone(bucket: Bucket) -> None:
    """All bases are full or spoilt: the slot stays."""
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 9)], floored_minus=[(A, 9, 2)])
    for number in ["", *range(1, 40)]:
        bucket.client.hset(A, f"{number}+", HIGHEST)
        bucket.client.hset(A, f"{number}-", HIGHEST)
    before = bucket.everything()
    answer = bucket.end(actor, A)
    assert answer[:3] == ("OK", 0, 1)
    assert answer[4:5] == (1,)
    assert bucket.fields(A) == before[A]


def test_folding_needs_no_memory(bucket: Bucket) -> None:
    """It frees some: a server that is full folds all the same, and nothing changes in value."""
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 7), (B, 1)], floored_minus=[(A, 3, 1)])
    bucket.close(actor)
    with full_memory(bucket):
        assert bucket.fold(actor, B) == ("OK", 1)
        assert bucket.fold(actor, A) == ("OK", 2)
    assert (bucket.value(A), bucket.value(B)) == (5, 1)
    assert bucket.map(A).actors == frozenset()


@pytest.mark.parametrize("begun", [False, True])
def test_a_demoted_primary_refuses_the_whole_fold(bucket: Bucket, begun: bool) -> None:
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 7), (B, 1)])
    bucket.close(actor)
    if begun:
        bucket.fold(actor, B)
    before = bucket.everything()
    with read_only(bucket), pytest.raises(Exception, match=r"READONLY|read.only"):
        bucket.fold(actor, A)
    assert bucket.everything() == before


@pytest.mark.parametrize(
    ("command", "begun"), [("hset", False), ("hdel", False), ("hdel", True), ("hincrby", False), ("hincrby", True)]
)
def test_a_missing_permission_changes_no_value(bucket: Bucket, command: str, begun: bool) -> None:
    """HDEL refused after HINCRBY was done would count the slot twice, and again with every attempt."""
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 7), (B, 1)], floored_minus=[(A, 3, 1)])
    bucket.close(actor)
    if begun:
        bucket.fold(actor, B)
    before = bucket.shards()
    with denied(bucket, command) as partly:
        if command == "hincrby":
            answer = partly.fold(actor, A)
            assert (answer[:3], answer[4:5]) == (("OK", 0, 1), (1,))
        else:
            with pytest.raises(Exception, match=r"NOPERM|ACL|can't"):
                partly.fold(actor, A)
    assert bucket.shards() == before


def test_a_registry_of_another_type_is_an_error(bucket: Bucket) -> None:
    bucket.client.set(REGISTRY, "mine")
    with pytest.raises(Exception, match="WRONGTYPE"):
        bucket.fold(b"gen00.1.bbbb", A)
