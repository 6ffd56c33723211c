"""A counter that stays within bounds: each actor decrements, and increments, only by rights that it holds itself.

With a floor, an increment makes rights to decrement, which the actor holds; a decrement uses them up. With a cap it is
the other way round: a decrement makes room, which the actor holds, and an increment uses it up. With both, either makes
what the other uses. Rights and room can be given to other actors. No actor decides by the merged value: others may be
using the same headroom at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from redis_counters.crdt.pncounter import PNCounter
from redis_counters.crdt.transfers import Transfers
from redis_counters.errors import UsageError

__all__ = ["BoundedCounter", "Bounds"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """A floor, a cap or both, the same for all replicas and for ever; the value stays between them.

    ``creator``: the actor that holds the room between start and cap at first; needed with a cap, none without.
    Raises: UsageError for no bound, a floor above the cap, a cap without a creator; TypeError for what is not an int.
    """

    floor: int | None = None
    cap: int | None = None
    creator: bytes | None = None

    def __post_init__(self) -> None:
        bounds = [bound for bound in (self.floor, self.cap) if bound is not None]
        if not bounds:
            raise UsageError("a bounded counter has a floor, a cap or both")
        for bound in bounds:
            _check_int("a bound", bound)
        if bounds[0] > bounds[-1]:
            raise UsageError(f"the floor {self.floor} is above the cap {self.cap}")
        if (self.cap is None) != (self.creator is None):
            raise UsageError("the room below a cap is held by a creator at first; without a cap there is none")

    @property
    def start(self) -> int:
        """The value before any operation: the floor; with a cap alone, 0, or the cap if it is below 0.

        So a counter with a floor starts with no rights, and one with a cap with all its room.
        """
        return min(0, self.cap or 0) if self.floor is None else self.floor

    def first_room(self, actor: bytes) -> int:
        """The room that the actor holds before any operation."""
        return self.cap - self.start if self.cap is not None and actor == self.creator else 0


@dataclass(frozen=True, slots=True)
class BoundedCounter:
    """Cells of what was added, taken away and given, each written by one actor; each only grows, so merges by maximum.

    In the states of replicas that merge whole states, the value never leaves the bounds, no rights are negative, and
    the rights of all add up to what lies between floor and value, the room of all to what lies between value and cap.
    An actor's own copy never shows too many of its rights: others only add to them, by transfers it may not know yet.

    A state may come in parts, as deltas do: then a decrement may be known before the rights that it used. So others'
    rights are shown as 0 rather than negative, and the value may lie outside the bounds until the rest arrives; the
    value is not clamped, which would hide that too much was sold. Decisions stay safe: an actor's own cells are whole.

    All of it rests on the duty that own cells never go back. An actor that lost some and goes on under its old name
    spends twice, and nothing shows it; under a new name, what the old one held is stranded.

    Cost: every operation is O(cells).
    Raises: UsageError for an amount below 1, a transfer to oneself, rights without a floor, room without a cap, a
    merge with a counter of other bounds; TypeError for an amount that is not an int (a bool is none).
    Source: Balegas, Serra, Duarte, Ferreira, Shapiro, Rodrigues, Preguica, "Extending Eventually Consistent Cloud
    Databases for Enforcing Numeric Invariants" (2015); escrow: O'Neil, "The Escrow Transactional Method" (1986).
    """

    bounds: Bounds = field(default_factory=lambda: Bounds(floor=0))
    counts: PNCounter = field(default_factory=PNCounter)
    given: Transfers = field(default_factory=Transfers)
    given_room: Transfers = field(default_factory=Transfers)

    @classmethod
    def bottom(cls) -> BoundedCounter:
        """Nothing counted and nothing given; a floor at 0. Of other bounds: ``BoundedCounter(bounds)``."""
        return cls()

    @property
    def value(self) -> int:
        """The start, plus what was added, less what was taken away, as far as this state knows."""
        return self.bounds.start + self.counts.value

    def rights(self, actor: bytes) -> int | None:
        """How much the actor may take away; None: without a floor, any amount."""
        if self.bounds.floor is None:
            return None
        return max(0, self._net_count(actor) + self.given.net(actor))

    def room(self, actor: bytes) -> int | None:
        """How much the actor may add; None: without a cap, any amount."""
        if self.bounds.cap is None:
            return None
        return max(0, self.bounds.first_room(actor) - self._net_count(actor) + self.given_room.net(actor))

    def try_inc(self, actor: bytes, amount: int = 1) -> BoundedCounter | None:
        """The actor has added ``amount``, and holds rights to it; None: it lacks the room."""
        return self._after(self.try_inc_delta(actor, amount))

    def try_dec(self, actor: bytes, amount: int = 1) -> BoundedCounter | None:
        """The actor has taken ``amount`` away, and holds the room; None: it lacks the rights."""
        return self._after(self.try_dec_delta(actor, amount))

    def transfer(self, actor: bytes, to: bytes, amount: int) -> BoundedCounter | None:
        """The actor has given rights to another, which may use them once it knows; None: it lacks them."""
        return self._after(self.transfer_delta(actor, to, amount))

    def transfer_room(self, actor: bytes, to: bytes, amount: int) -> BoundedCounter | None:
        """The actor has given room to another, which may use it once it knows; None: it lacks it."""
        return self._after(self.transfer_room_delta(actor, to, amount))

    def try_inc_delta(self, actor: bytes, amount: int = 1) -> BoundedCounter | None:
        """The delta of `try_inc`: one cell, with its new total; None: refused."""
        if not _suffices(self.room(actor), amount):
            return None
        return type(self)(self.bounds, counts=self.counts.increment_delta(actor, amount))

    def try_dec_delta(self, actor: bytes, amount: int = 1) -> BoundedCounter | None:
        """The delta of `try_dec`: one cell, with its new total; None: refused."""
        if not _suffices(self.rights(actor), amount):
            return None
        return type(self)(self.bounds, counts=self.counts.decrement_delta(actor, amount))

    def transfer_delta(self, actor: bytes, to: bytes, amount: int) -> BoundedCounter | None:
        """The delta of `transfer`: one cell, with its new total; None: refused."""
        if self.bounds.floor is None:
            raise UsageError("without a floor there are no rights to give")
        cell = self.given.delta(actor, to, amount)
        return type(self)(self.bounds, given=cell) if _suffices(self.rights(actor), amount) else None

    def transfer_room_delta(self, actor: bytes, to: bytes, amount: int) -> BoundedCounter | None:
        """The delta of `transfer_room`: one cell, with its new total; None: refused."""
        if self.bounds.cap is None:
            raise UsageError("without a cap there is no room to give")
        cell = self.given_room.delta(actor, to, amount)
        return type(self)(self.bounds, given_room=cell) if _suffices(self.room(actor), amount) else None

    def merge(self, other: BoundedCounter, /) -> BoundedCounter:
        """Of each cell, the larger."""
        self._check_bounds(other)
        counts = self.counts.merge(other.counts)
        given, given_room = self.given.merge(other.given), self.given_room.merge(other.given_room)
        return replace(self, counts=counts, given=given, given_room=given_room)

    def __le__(self, other: BoundedCounter, /) -> bool:
        """Whether no cell is above the other's."""
        self._check_bounds(other)
        return self.counts <= other.counts and self.given <= other.given and self.given_room <= other.given_room

    def decompose(self) -> Iterator[BoundedCounter]:
        """One state for each cell."""
        yield from (type(self)(self.bounds, counts=part) for part in self.counts.decompose())
        yield from (type(self)(self.bounds, given=part) for part in self.given.decompose())
        yield from (type(self)(self.bounds, given_room=part) for part in self.given_room.decompose())

    def _net_count(self, actor: bytes) -> int:
        return self.counts.plus.slots.get(actor, 0) - self.counts.minus.slots.get(actor, 0)

    def _after(self, delta: BoundedCounter | None) -> BoundedCounter | None:
        return None if delta is None else self.merge(delta)

    def _check_bounds(self, other: BoundedCounter) -> None:
        if self.bounds != other.bounds:
            raise UsageError(f"not the same counter: {self.bounds} and {other.bounds}")


def _suffices(held: int | None, amount: int) -> bool:
    if _check_int("an amount", amount) < 1:
        raise UsageError(f"an amount is at least 1: {amount}; the other direction is an operation of its own")
    return held is None or amount <= held


def _check_int(what: str, number: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"{what} is an int, not {type(number).__name__}")
    return number
