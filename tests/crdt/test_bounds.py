"""No schedule leaves the bounds of a bounded counter; and without any one of its rules some schedule does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from redis_counters.crdt.bounded import BoundedCounter, Bounds
from redis_counters.crdt.gcounter import GCounter
from redis_counters.crdt.lattice import merge_all
from redis_counters.crdt.pncounter import PNCounter
from redis_counters.errors import UsageError

ACTORS = A, B, C = (b"a", b"b", b"c")
FLOOR = Bounds(floor=-2)
CAP = Bounds(cap=9, creator=A)
BOTH = Bounds(floor=-2, cap=9, creator=B)
BOUNDS = {"floor": FLOOR, "cap": CAP, "both": BOTH}

Step = tuple[str, bytes, bytes, int]
steps = st.tuples(
    st.sampled_from(["inc", "inc", "dec", "dec", "give", "give room", "send", "send", "send part"]),
    st.sampled_from(ACTORS),
    st.sampled_from(ACTORS),
    st.integers(-1, 6),
)
schedules = st.lists(steps, max_size=40)


class Ledger:
    """Rights and room as numbers that change at once, which no process in a network could keep."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.value = bounds.start
        self.rights: Counter[bytes] = Counter()
        self.room = Counter({actor: bounds.first_room(actor) for actor in ACTORS})

    def did(self, what: str, actor: bytes, to: bytes, amount: int) -> None:
        if what in ("inc", "dec"):
            change = amount if what == "inc" else -amount
            self.value += change
            self.rights[actor] += change
            self.room[actor] -= change
        else:
            held = self.rights if what == "give" else self.room
            held[actor] -= amount
            held[to] += amount

    def check(self, true: BoundedCounter) -> None:
        """Nothing is out of bounds, and the merge of all copies says the same as this account."""
        floor, cap = self.bounds.floor, self.bounds.cap
        assert true.value == self.value
        if floor is not None:
            assert self.value >= floor
            assert min(self.rights[actor] for actor in ACTORS) >= 0
            assert {actor: true.rights(actor) for actor in ACTORS} == {actor: self.rights[actor] for actor in ACTORS}
            assert sum(true.rights(actor) or 0 for actor in ACTORS) == self.value - floor
        if cap is not None:
            assert self.value <= cap
            assert min(self.room[actor] for actor in ACTORS) >= 0
            assert {actor: true.room(actor) for actor in ACTORS} == {actor: self.room[actor] for actor in ACTORS}
            assert sum(true.room(actor) or 0 for actor in ACTORS) == cap - self.value


OPERATIONS: dict[str, Callable[[BoundedCounter, bytes, bytes, int], BoundedCounter | None]] = {
    "inc": lambda state, actor, _to, amount: state.try_inc(actor, amount),
    "dec": lambda state, actor, _to, amount: state.try_dec(actor, amount),
    "give": lambda state, actor, to, amount: state.transfer(actor, to, amount),
    "give room": lambda state, actor, to, amount: state.transfer_room(actor, to, amount),
}


def attempt(state: BoundedCounter, what: str, actor: bytes, to: bytes, amount: int) -> BoundedCounter | None:
    """Try it. A mistake is a UsageError, and only a mistake; broken types may allow it."""
    mistaken = amount < 1 or ("give" in what and actor == to)
    try:
        after = OPERATIONS[what](state, actor, to, amount)
    except UsageError:
        assert mistaken
        return None
    assert not mistaken or type(state) is not BoundedCounter
    return after


def play(bottom: BoundedCounter, schedule: list[Step]) -> None:
    """After each step, with copies of any age and in parts, all is in bounds, and no actor overestimates itself."""
    bounds = bottom.bounds
    ledger, now = Ledger(bounds), dict.fromkeys(ACTORS, bottom)
    copies, parts = [bottom], [bottom]
    for what, actor, to, amount in schedule:
        if what == "send":  # a copy of anyone's, of any age, and again
            now[actor] = now[actor].merge(now[to] if amount > 3 else copies[-1 - amount * 7 % len(copies)])
        elif what == "send part":
            now[actor] = now[actor].merge(parts[-1 - amount * 7 % len(parts)])
        elif not (what == "give" and bounds.floor is None) and not (what == "give room" and bounds.cap is None):
            before = now[actor]
            after = attempt(before, what, actor, to, amount)
            if after is not None:
                assert before <= after
                ledger.did(what, actor, to, amount)
                now[actor] = after
        copies.append(now[actor])
        parts.extend(now[actor].decompose())
        ledger.check(merge_all(now.values(), bottom))
        for each, state in now.items():
            assert bounds.floor is None or 0 <= (state.rights(each) or 0) <= ledger.rights[each]
            assert bounds.cap is None or 0 <= (state.room(each) or 0) <= ledger.room[each]
    last = merge_all(copies, bottom)
    assert last == merge_all(now.values(), bottom)
    assert all(part <= last for part in parts)


@pytest.mark.parametrize("bounds", BOUNDS)
def test_no_schedule_leaves_the_bounds(bounds: str) -> None:
    """Messages are lost, late, repeated, in parts; each attempt is decided by the actor's own rights."""
    check(BoundedCounter(BOUNDS[bounds]), settings(max_examples=150))


def check(bottom: BoundedCounter, config: settings) -> None:
    @settings(config, report_multiple_bugs=False)
    @given(schedules)
    def run(schedule: list[Step]) -> None:
        play(bottom, schedule)

    run()


@given(st.lists(steps.filter(lambda step: step[0] != "send part"), max_size=40))
def test_whole_states_show_no_value_out_of_bounds(schedule: list[Step]) -> None:
    """Each copy, old as it may be, shows a value within the bounds, and rights and room that add up."""
    copies = [BoundedCounter(BOTH)]
    now = dict.fromkeys(ACTORS, copies[0])
    for what, actor, to, amount in schedule:
        if what == "send":
            after = now[actor].merge(now[to] if amount > 3 else copies[-1 - amount * 7 % len(copies)])
        else:
            after = attempt(now[actor], what, actor, to, amount) or now[actor]
        now[actor] = after
        copies.append(after)
        assert -2 <= after.value <= 9
        assert sum(after.rights(each) or 0 for each in ACTORS) == after.value + 2
        assert sum(after.room(each) or 0 for each in ACTORS) == 9 - after.value


# --- rules broken by hand, one each ---------------------------------------------------------------------------------


class Broken(BoundedCounter):
    """The operations without their checks."""

    __slots__ = ()

    def dec(self, actor: bytes, amount: int, held: int) -> BoundedCounter | None:
        if not 1 <= amount <= held:
            return None
        return replace(self, counts=self.counts.decrement(actor, amount))

    def inc(self, actor: bytes, amount: int, held: int) -> BoundedCounter | None:
        if not 1 <= amount <= held:
            return None
        return replace(self, counts=self.counts.increment(actor, amount))


class ChecksTheMergedValue(Broken):
    __slots__ = ()

    def try_dec(self, actor: bytes, amount: int = 1) -> BoundedCounter | None:
        return self.dec(actor, amount, self.value - (self.bounds.floor or 0))


class ChecksTheMergedRoom(Broken):
    __slots__ = ()

    def try_inc(self, actor: bytes, amount: int = 1) -> BoundedCounter | None:
        return self.inc(actor, amount, (self.bounds.cap or 0) - self.value)


class SellsOneTooMany(Broken):
    __slots__ = ()

    def try_dec(self, actor: bytes, amount: int = 1) -> BoundedCounter | None:
        return self.dec(actor, amount, (self.rights(actor) or 0) + 1)


class KeepsWhatItGives(Broken):
    """The receiver has it, and the giver too."""

    __slots__ = ()

    def try_dec(self, actor: bytes, amount: int = 1) -> BoundedCounter | None:
        given = sum(each.slots.get(actor, 0) for each in self.given.received.values())
        return self.dec(actor, amount, (self.rights(actor) or 0) + given)


class HasTwoCreators(Broken):
    """Another actor takes itself for the creator too, and holds the first room once more."""

    __slots__ = ()

    def try_inc(self, actor: bytes, amount: int = 1) -> BoundedCounter | None:
        return self.inc(actor, amount, (self.room(actor) or 0) + (self.bounds.first_room(B) if actor == C else 0))


class TransfersWithoutRights(BoundedCounter):
    __slots__ = ()

    def transfer(self, actor: bytes, to: bytes, amount: int) -> BoundedCounter | None:
        if amount < 1 or actor == to:
            return super().transfer(actor, to, amount)
        return self.merge(replace(self, given=self.given.delta(actor, to, amount)))


class TransfersToItself(BoundedCounter):
    """The cell of a transfer to oneself is that of increments, as elsewhere it is: rights out of nothing."""

    __slots__ = ()

    def transfer(self, actor: bytes, to: bytes, amount: int) -> BoundedCounter | None:
        if amount < 1 or actor != to:
            return super().transfer(actor, to, amount)
        return replace(self, counts=self.counts.increment(actor, amount))


class TakesNegativeAmounts(BoundedCounter):
    """A negative decrement takes one back, of which others may have heard."""

    __slots__ = ()

    def try_dec(self, actor: bytes, amount: int = 1) -> BoundedCounter | None:
        spent = self.counts.minus.slots
        if not 0 <= -amount <= spent.get(actor, 0):
            return super().try_dec(actor, amount) if amount > 0 else None
        minus = GCounter({**spent, actor: spent.get(actor, 0) + amount})
        return replace(self, counts=replace(self.counts, minus=minus))


class MergeOverwrites(BoundedCounter):
    """A cell that the message has is taken as it is there."""

    __slots__ = ()

    def merge(self, other: BoundedCounter, /) -> BoundedCounter:
        halves = ((self.counts.plus, other.counts.plus), (self.counts.minus, other.counts.minus))
        counts = PNCounter(*(GCounter({**mine.slots, **its.slots}) for mine, its in halves))
        return replace(super().merge(other), counts=counts)


BROKEN: list[tuple[type[BoundedCounter], Bounds]] = [
    (ChecksTheMergedValue, FLOOR),
    (ChecksTheMergedValue, BOTH),
    (ChecksTheMergedRoom, CAP),
    (ChecksTheMergedRoom, BOTH),
    (SellsOneTooMany, FLOOR),
    (KeepsWhatItGives, FLOOR),
    (HasTwoCreators, BOTH),
    (TransfersWithoutRights, FLOOR),
    (TransfersToItself, FLOOR),
    (TakesNegativeAmounts, FLOOR),
    (MergeOverwrites, FLOOR),
    (MergeOverwrites, BOTH),
]


@pytest.mark.parametrize(("broken", "bounds"), BROKEN, ids=lambda x: x.__name__ if isinstance(x, type) else "")
def test_schedules_notice(broken: type[BoundedCounter], bounds: Bounds) -> None:
    """Without the rule some schedule leaves the bounds, or rights come from nothing."""
    with pytest.raises(AssertionError):
        check(broken(bounds), settings(max_examples=500, derandomize=True, database=None, phases=[Phase.generate]))
