"""What a reset takes away: what it has seen, and nothing else, whatever arrives when and how often."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from redis_counters.crdt.lattice import merge_all
from redis_counters.crdt.resettable import ResettableCounter

from .specs import signed_amounts

REPLICAS = (b"a", b"b", b"c")

steps = st.lists(
    st.tuples(st.just("count"), st.sampled_from(REPLICAS), signed_amounts)
    | st.tuples(st.just("reset"), st.sampled_from(REPLICAS), st.just(0))
    | st.tuples(st.just("send"), st.sampled_from(REPLICAS), st.integers(0, 1000)),
    max_size=30,
)


@dataclass
class Copy:
    """A state, and by right: how many counts of each replica it knows of."""

    state: ResettableCounter = field(default_factory=ResettableCounter)
    known: Counter[bytes] = field(default_factory=Counter)
    seen: Counter[bytes] = field(default_factory=Counter)  # of these, how many some reset has seen

    def merged(self, other: Copy) -> Copy:
        return Copy(self.state.merge(other.state), self.known | other.known, self.seen | other.seen)


def expected(copy: Copy, counted: dict[bytes, list[int]]) -> int:
    return sum(sum(counted[name][copy.seen[name] : copy.known[name]]) for name in REPLICAS)


@given(steps)
def test_a_value_is_what_no_known_reset_has_seen(schedule: list[tuple[str, bytes, int]]) -> None:
    """Every copy that ever was may arrive anywhere, at any time, and again."""
    now = {name: Copy() for name in REPLICAS}
    copies = [Copy()]
    counted: dict[bytes, list[int]] = {name: [] for name in REPLICAS}
    for what, name, number in schedule:
        here = now[name]
        if what == "count":
            state = here.state.increment(name, number) if number >= 0 else here.state.decrement(name, -number)
            delta = (
                here.state.increment_delta(name, number) if number >= 0 else here.state.decrement_delta(name, -number)
            )
            assert here.state.merge(delta) == state
            counted[name].append(number)
            here = Copy(state, here.known + Counter({name: 1}), here.seen)
        elif what == "reset":
            state = here.state.reset()
            assert here.state.merge(here.state.reset_delta()) == state
            assert state.value == 0
            assert state.reset() == state
            here = Copy(state, here.known, Counter(here.known))
        else:
            here = here.merged(copies[number % len(copies)])
        now[name] = here
        copies.append(here)
        assert here.state.value == expected(here, counted)
    last = merge_all((copy.state for copy in copies), ResettableCounter())
    assert last == merge_all((now[name].state for name in REPLICAS), ResettableCounter())
    assert all(copy.state <= last for copy in copies)


def test_concurrent_increments_survive() -> None:
    start = ResettableCounter().increment(b"a", 100)
    reset, counted = start.reset(), start.increment(b"b", 3)
    assert reset.merge(counted).value == counted.merge(reset).value == 3
    assert reset.merge(counted).merge(start).value == 3, "an old copy changes nothing"


def test_two_resets_do_not_add_up() -> None:
    start = ResettableCounter().increment(b"a", 5)
    assert start.reset().merge(start.reset()).value == 0
    assert start.reset().merge(start.increment(b"a").reset()).value == 0


def test_floors_alone_are_too_low_for_a_while() -> None:
    """Why a reset's delta has the totals in it."""
    start = ResettableCounter().increment(b"a", 5)
    assert ResettableCounter(floors=start.totals).value == -5
    assert ResettableCounter().merge(start.reset_delta()).value == 0
