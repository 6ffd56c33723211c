"""A copy and what it is of count as their maximum, in whatever order and however often they are seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redis_counters.crdt.shard_copies import beyond, copies_in, copy_name, is_copy
from redis_counters.crdt.shard_fields import entries_in, sum_fields

COUNT = st.integers(0, 2**70)


def test_names() -> None:
    """A copy is no actor, and no seed; of another shard, or another key in its place, it is another."""
    name = copy_name(3, b"gen00.7")
    assert name == b"s.3.gen00.7"
    assert is_copy(name)
    assert not any(map(is_copy, (b"s.token", b"gen00.7.own", b"~gen00.7.own", b"")))
    assert len({copy_name(shard, dot) for shard in (1, 11) for dot in (b"a.1", b"a.11", b"b.1")}) == 6


@given(COUNT, COUNT, COUNT, COUNT, st.booleans())
def test_both_together_are_the_maximum(plus: int, minus: int, copied_plus: int, copied_minus: int, same: bool) -> None:
    """Per sign, if it is a copy of this very key; else their sum."""
    copies = copies_in([(b"s.2.g.1+", b"%d" % copied_plus), (b"s.2.g.1-", b"%d" % copied_minus), (b"+", b"9")])
    assert copies == {b"s.2.g.1": (copied_plus, copied_minus)}
    counted, _ = sum_fields([(b"s.2.g.1+", b"%d" % copied_plus), (b"s.2.g.1-", b"%d" % copied_minus)])
    shard = [(b"d", b"g.1" if same else b"g.2"), (b"+", b"%d" % plus), (b"-", b"%d" % minus), (b"k", b"4")]
    both = counted + beyond(entries_in(shard), 2, copies)
    if same:
        assert both == max(plus, copied_plus) - max(minus, copied_minus)
    else:
        assert both == plus + copied_plus - minus - copied_minus
    assert beyond(entries_in(shard), 3, copies) == plus - minus


@given(COUNT, COUNT)
def test_slots_and_floors_are_counted(total: int, floor: int) -> None:
    shard = [(b"g.1.own+", b"%d" % (total + floor)), (b"~g.1.own+", b"%d" % floor), (b"x@y+", b"junk"), (b"", b"")]
    assert beyond(entries_in(shard), 1, {}) == sum_fields(shard)[0] == total


@pytest.mark.parametrize("raw", [b"", b"x", b"-1", b"1.0"])
def test_what_is_no_count_is_told(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"s\.2\.g\.1"):
        copies_in([(b"s.2.g.1+", raw)])
    with pytest.raises(ValueError, match="field"):
        beyond(entries_in([(b"+", raw)]), 1, {})
