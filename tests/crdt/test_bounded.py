"""The laws do not say it of bounded counters: no schedule leaves the bounds, and each rule is needed for that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from redis_counters.crdt.bounded import BoundedCounter, Bounds
from redis_counters.crdt.gcounter import GCounter
from redis_counters.crdt.lattice import merge_all
from redis_counters.crdt.pncounter import PNCounter
from redis_counters.crdt.transfers import Transfers
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
            now[actor] = now[actor].merge(copies[-1 - amount * 7 % len(copies)])
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
            after = now[actor].merge(copies[-1 - amount * 7 % len(copies)])
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


# --- examples --------------------------------------------------------------------------------------------------------


def stock(**held: int) -> BoundedCounter:
    """Tickets of which each seller holds some, and everybody knows it."""
    state: BoundedCounter | None = BoundedCounter()
    for seller, amount in held.items():
        assert state is not None
        state = state.try_inc(seller.encode(), amount)
    assert state is not None
    return state


def test_ten_tickets_are_sold_ten_times_at_most() -> None:
    """Three sellers hold 4, 4 and 2 and hear nothing of each other: one with no rights left sells nothing more."""
    start = stock(a=4, b=4, c=2)
    a, b, c = start.try_dec(A, 4), start.try_dec(B, 3), start.try_dec(C, 2)
    assert a is not None
    assert b is not None
    assert c is not None
    assert (a.try_dec(A), a.value) == (None, 6), "it sees 6 left, and holds none of them"
    healed = merge_all([a, b, c], start)
    assert healed.value == 1
    assert [healed.rights(seller) for seller in ACTORS] == [0, 1, 0]
    assert healed.try_dec(A) is None
    given = healed.transfer(B, A, 1)
    assert given is not None
    sold = given.try_dec(A)
    assert sold is not None
    assert (sold.value, sold.try_dec(B)) == (0, None)


def test_a_plain_counter_sells_thirteen_of_ten() -> None:
    """Sales of 6 and 7 of 10, apart: each is right by the copy it goes by, and together they come to -3."""
    plain = PNCounter().increment(A, 10)
    a, b = plain.decrement(A, 6), plain.decrement(B, 7)
    assert (a.value, b.value) == (4, 3)
    assert a.merge(b).value == -3

    start = stock(a=6, b=4)
    sold = start.try_dec(A, 6)
    assert sold is not None
    assert start.try_dec(B, 7) is None
    assert sold.merge(start).value == 4


def test_rights_of_others_are_not_shown_negative() -> None:
    """A decrement that comes before the rights it used: they are shown as 0, and decisions wait for the rest."""
    start = stock(a=5)
    given = start.transfer(A, B, 3)
    assert given is not None
    spent = given.try_dec_delta(B, 3)
    assert spent is not None
    seen = BoundedCounter().merge(spent)
    assert (seen.rights(B), seen.value) == (0, -3)
    assert seen.try_dec(C) is None
    whole = seen.merge(given)
    assert (whole.rights(A), whole.rights(B), whole.value) == (2, 0, 2)


def test_a_name_that_goes_back_oversells() -> None:
    """The one duty: after a fall to an older copy, a name sells its rights again, and no merged state shows it."""
    start = stock(a=10)
    once, again = start.try_dec(A, 6), start.try_dec(A, 6)
    assert once is not None
    assert again is not None
    assert once.merge(again).value == 4, "12 were sold of 10"


@pytest.mark.parametrize("amount", [0, -1, -100])
def test_an_amount_is_at_least_one(amount: int) -> None:
    """A maximum would lose a negative one, or a giver would raise its own rights by it."""
    state = BoundedCounter(BOTH).try_inc(B, 5)
    assert state is not None
    for what in ("inc", "dec", "give", "give room"):
        with pytest.raises(UsageError):
            OPERATIONS[what](state, B, A, amount)


@pytest.mark.parametrize("number", [True, 1.0, "1"])
def test_amounts_and_bounds_are_ints(number: int) -> None:
    """Anything else is a TypeError; bool too, though Python calls it an int."""
    for what in ("inc", "dec", "give", "give room"):
        with pytest.raises(TypeError):
            OPERATIONS[what](BoundedCounter(BOTH), B, A, number)
    with pytest.raises(TypeError):
        Bounds(floor=number)
    with pytest.raises(TypeError):
        Bounds(cap=number, creator=A)


def test_a_transfer_goes_to_another() -> None:
    """Of rights and of room, whether the giver holds them or not."""
    for amount in (1, 100):
        with pytest.raises(UsageError, match="another"):
            BoundedCounter(BOTH).transfer(B, B, amount)
        with pytest.raises(UsageError, match="another"):
            BoundedCounter(BOTH).transfer_room(B, B, amount)


def test_bounds() -> None:
    """At least one, in order, and a cap with the actor that holds its room at first."""
    for wrong in ((None, None, None), (1, 0, A), (None, 1, None), (1, None, A)):
        with pytest.raises(UsageError):
            Bounds(*wrong)
    assert [Bounds(floor=-5).start, CAP.start, BOTH.start, Bounds(cap=-3, creator=A).start] == [-5, 0, -2, -3]
    assert [Bounds(floor=4, cap=4, creator=A).first_room(A), BOTH.first_room(B), BOTH.first_room(A)] == [0, 11, 0]


def test_without_a_bound_there_is_nothing_to_hold() -> None:
    """Any amount goes that way, and no rights to it can be given."""
    floor, cap = BoundedCounter(FLOOR), BoundedCounter(CAP)
    assert (floor.room(A), cap.rights(A)) == (None, None)
    assert floor.try_inc(A, 10**30) is not None
    assert cap.try_dec(B, 10**30) is not None
    with pytest.raises(UsageError, match="cap"):
        floor.transfer_room(A, B, 1)
    with pytest.raises(UsageError, match="floor"):
        cap.transfer(A, B, 1)


def test_other_bounds_are_another_counter() -> None:
    """They are neither merged nor compared; the error names both."""
    for one, other in pairwise([BoundedCounter(bounds) for bounds in (FLOOR, CAP, BOTH, replace(BOTH, creator=C))]):
        with pytest.raises(UsageError, match=r"Bounds.* and Bounds"):
            one.merge(other)
        with pytest.raises(UsageError):
            assert one <= other


def test_a_delta_holds_one_cell() -> None:
    """Its total, and nothing of the others."""
    state = BoundedCounter(BOTH)
    for what in ("inc", "dec", "give", "give room", "give"):
        after = attempt(state.merge(state), what, B, A, 1) if what != "inc" else state.try_inc(B, 5)
        assert after is not None
        state = after
    assert set(state.decompose()) == {
        BoundedCounter(BOTH, counts=PNCounter(plus=GCounter({B: 5}))),
        BoundedCounter(BOTH, counts=PNCounter(minus=GCounter({B: 1}))),
        BoundedCounter(BOTH, given=Transfers({A: GCounter({B: 2})})),
        BoundedCounter(BOTH, given_room=Transfers({A: GCounter({B: 1})})),
    }
    assert state.transfer_delta(B, A, 2) == BoundedCounter(BOTH, given=Transfers({A: GCounter({B: 4})}))


def test_nothing_given_is_not_kept() -> None:
    """So that equal knowledge makes equal states; a state does not change with what it was made from."""
    cells = {A: GCounter({B: 1}), C: GCounter()}
    given = Transfers(cells)
    cells[A] = GCounter({B: 9})
    assert given == Transfers({A: GCounter({B: 1})})
    assert hash(given) == hash(Transfers({A: GCounter({B: 1})}))
    assert (given.net(A), given.net(B), given.net(C)) == (1, -1, 0)
