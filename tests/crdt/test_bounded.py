"""Bounded counters beside their laws: examples, what they refuse, and that they are values."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from redis_counters.crdt.bounded import BoundedCounter, Bounds
from redis_counters.crdt.gcounter import GCounter
from redis_counters.crdt.lattice import merge_all
from redis_counters.crdt.pncounter import PNCounter
from redis_counters.crdt.transfers import Transfers
from redis_counters.errors import UsageError

from .test_bounds import ACTORS, BOTH, CAP, FLOOR, OPERATIONS, A, B, C


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
        after = OPERATIONS[what](state, B, A, 5 if what == "inc" else 1)
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
