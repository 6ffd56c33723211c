"""Entries of regions: the fields, the canonical text and the value type say the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redis_counters.crdt.regional import RegionalShard, as_text, parse_fields, parse_text
from redis_counters.crdt.shard_copies import beyond
from redis_counters.crdt.shard_fields import entries_in, sum_fields
from redis_counters.crdt.slotmap import SlotMap, format_fields

from .test_slotmap import slot_maps

counts = st.integers(0, 9) | st.integers(0, 2**70)
entries = st.tuples(counts, counts, st.booleans(), st.booleans()).map(
    lambda e: (e[0], e[1], e[0] if e[2] else 0, e[1] if e[3] else 0)
)
places = st.sampled_from([b"eu/0", b"us/0", b"us.2/Xk3b9.4", b"ap-1/0"])
own_dots = st.sampled_from([b"0", b"Xk3b9.12", b"Xk3b9.3"])  # the second is that of slot_maps
texts = st.builds(
    lambda told, shards, expiry: as_text(_state(told, shards, expiry)),
    st.dictionaries(places, entries, max_size=4),
    st.sampled_from([0, 2, 64]),
    st.sampled_from([0, 1_790_000_000_000]),
)


def _fields(place: bytes, entry: tuple[int, ...]) -> dict[bytes, bytes]:
    plus, minus, floor_plus, floor_minus = (b"%d" % number for number in entry)
    at, floor = b"@" + place, b"~@" + place
    return {at + b"+": plus, at + b"-": minus, floor + b"+": floor_plus, floor + b"-": floor_minus}


def _state(told: dict[bytes, tuple[int, ...]], shards: int = 0, expiry: int = 0) -> RegionalShard:
    fields = {name: raw for place, entry in told.items() for name, raw in _fields(place, entry).items()}
    return parse_fields({**fields, **({b"k": b"%d" % shards} if shards else {})}, expiry=expiry)


@given(slot_maps, st.dictionaries(places, entries), st.dictionaries(own_dots, entries))
def test_a_read_counts_what_the_type_counts(
    shard: SlotMap, others: dict[bytes, tuple[int, ...]], own: dict[bytes, tuple[int, ...]]
) -> None:
    """Totals less floors; of the live key the larger of its slots and its copy, per sign."""
    fields = format_fields(shard)
    for place, entry in [*others.items(), *((b"/" + dot, entry) for dot, entry in own.items())]:
        fields |= _fields(place, entry)
    state = parse_fields(fields, b"here")
    assert sum_fields(fields.items())[0] == state.value == beyond(entries_in(fields.items()), 3, {})
    assert sum(state.values().values()) == state.value
    live = b"here/" + (shard.dot or b"")
    copy = own.get(shard.dot or b"", (0, 0, 0, 0))
    assert state.entry(live)[:2] == [max(shard.plus.value, copy[0]), max(shard.minus.value, copy[1])]
    for place, entry in others.items():
        assert state.entry(place) == list(entry)


@given(texts)
def test_a_text_is_read_as_what_was_written(text: bytes) -> None:
    assert as_text(parse_text(text)) == text
    assert b",0 " not in text + b" " or b"/0,0 " in text + b" ", "trailing zeros are left out"


@given(texts, texts)
def test_merging_texts_is_the_larger_of_each(one: bytes, other: bytes) -> None:
    merged = parse_text(one).merge(parse_text(other))
    assert parse_text(as_text(merged)) == merged
    for place in merged.places():
        pairs = zip(parse_text(one).entry(place), parse_text(other).entry(place), strict=True)
        assert merged.entry(place) == [max(pair) for pair in pairs]


def test_the_words_of_the_text() -> None:
    """What the scripts write, and what is left out of it."""
    fields = {b"d": b"0", b"k": b"2", b"g.1.o+": b"57", b"@us/0+": b"3", b"@us/0-": b"9", b"~@us/0-": b"9"}
    fields |= {b"@ap/0+": b"0"}
    state = parse_fields(fields, b"eu", expiry=5)
    assert as_text(state) == b"2 5 eu/0,57 us/0,3,9,0,9"
    assert as_text(state.without(b"eu")) == b"2 5 us/0,3,9,0,9"
    assert as_text(state.without(b"us")) == as_text(state), "what was reset it must be told"
    assert as_text(state.reset()) == b"2 5 eu/0,57,0,57 us/0,3,9,3,9"
    assert state.reset().value == 0
    assert parse_text(b"") == RegionalShard()


def test_other_fields_with_an_at_are_left_for_later() -> None:
    fields = {b"d": b"0", b"+": b"5", b"x@y+": b"junk", b"@us/0": b"junk", b"@us+": b"junk", b"~@x": b"junk"}
    assert sum_fields(fields.items()) == (5, 1)
    assert parse_fields(fields).value == 5


@pytest.mark.parametrize("name", [b"@us/0+", b"~@us/0-", b"@/0+"])
@pytest.mark.parametrize("raw", [b"", b"x", b"-1", b"1.0"])
def test_what_is_no_count_is_told(name: bytes, raw: bytes) -> None:
    for read in (lambda fields: sum_fields(fields.items()), parse_fields, lambda fields: entries_in(fields.items())):
        with pytest.raises(ValueError, match="field"):
            read({b"d": b"0", name: raw})


@pytest.mark.parametrize("text", [b"0", b"x 0", b"0 0 us", b"0 0 us,1", b"0 0 us/0,x", b"0 0 us/0,1 us/0,2", b"0  0"])
def test_what_is_no_text_is_told(text: bytes) -> None:
    with pytest.raises(ValueError):
        parse_text(text)


@given(counts, counts, counts, st.booleans())
def test_a_copy_of_a_moved_shard_and_a_floor_overlap(total: int, copied: int, floored: int, same: bool) -> None:
    """The floor was raised to a total of which the copy is an earlier state: neither is taken away twice."""
    floored = min(floored, total)
    fields = {b"d": b"g.1", b"+": b"%d" % total, b"~@/g.1+": b"%d" % floored}
    copies = {b"s.2.g.1" if same else b"s.2.g.9": (copied, 0)}
    lies_under = max(floored, copied) if same else floored
    assert beyond(entries_in(fields.items()), 2, copies) == max(0, total - lies_under)
