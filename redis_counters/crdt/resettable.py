"""A counter that can be reset: under each slot lies a floor, how much of it a reset has seen.

A reset does not touch the slots, which go on growing: it raises each floor to the total that it sees. So what is
counted at the same time elsewhere survives it, two resets of the same counts do not add up, and an old copy of either
changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from redis_counters.crdt.pncounter import PNCounter

__all__ = ["ResettableCounter"]


@dataclass(frozen=True, slots=True)
class ResettableCounter:
    """Totals and floors, each merged by maximum. The value is what the totals exceed the floors by.

    A floor says that its total was seen; so floors are only ever sent together with the totals that they stand under.
    Otherwise, until the total arrives, the value would be too low.

    Cost: every operation is O(slots). Raises: as `PNCounter`.
    Source: a product of two lattices (Almeida, Shoker, Baquero, "Delta State Replicated Data Types", 2018). Its reset
    is add-wins, where that of Baquero, Almeida, Lerche, "The problem with embedded CRDT counters and a solution"
    (2016), takes along what is counted at the same time.
    """

    totals: PNCounter = field(default_factory=PNCounter)
    floors: PNCounter = field(default_factory=PNCounter)

    @classmethod
    def bottom(cls) -> ResettableCounter:
        """Return the empty counter."""
        return cls()

    @property
    def value(self) -> int:
        """Totals less floors: all that no reset has seen, as far as this state knows."""
        return self.totals.value - self.floors.value

    def increment(self, actor: bytes, amount: int = 1) -> ResettableCounter:
        """Return the counter after the actor has added ``amount``."""
        return replace(self, totals=self.totals.increment(actor, amount))

    def decrement(self, actor: bytes, amount: int = 1) -> ResettableCounter:
        """Return the counter after the actor has taken ``amount`` away."""
        return replace(self, totals=self.totals.decrement(actor, amount))

    def increment_delta(self, actor: bytes, amount: int = 1) -> ResettableCounter:
        """Return only the slot that `increment` would change."""
        return ResettableCounter(self.totals.increment_delta(actor, amount))

    def decrement_delta(self, actor: bytes, amount: int = 1) -> ResettableCounter:
        """Return only the slot that `decrement` would change."""
        return ResettableCounter(self.totals.decrement_delta(actor, amount))

    def reset(self) -> ResettableCounter:
        """Return the counter with every floor at its total: the value is 0. Idempotent."""
        return replace(self, floors=self.totals)

    def reset_delta(self) -> ResettableCounter:
        """Return what `reset` would change, with the totals that it has seen."""
        return ResettableCounter(self.totals, self.totals)

    def merge(self, other: ResettableCounter, /) -> ResettableCounter:
        """Return the larger of each slot and each floor."""
        return ResettableCounter(self.totals.merge(other.totals), self.floors.merge(other.floors))

    def __le__(self, other: ResettableCounter, /) -> bool:
        """True if no slot and no floor is above the other's."""
        return self.totals <= other.totals and self.floors <= other.floors

    def decompose(self) -> Iterator[ResettableCounter]:
        """Yield one state for each slot, and one for each floor. Parts for proofs, not for a network: see the class."""
        yield from (ResettableCounter(totals=part) for part in self.totals.decompose())
        yield from (ResettableCounter(floors=part) for part in self.floors.decompose())
