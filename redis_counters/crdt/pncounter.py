"""A counter that goes up and down: two that only grow, one for what was added and one for what was taken away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from redis_counters.crdt.gcounter import GCounter

__all__ = ["PNCounter"]


@dataclass(frozen=True, slots=True)
class PNCounter:
    """Increments and decrements. Each only grows, so each merges by maximum; their difference would not.

    The value is any int. A replica that lacks some slots may be off in either direction. Amounts are never negative:
    counting down is an operation of its own.

    Cost: every operation is O(slots).
    Raises: as `GCounter`.
    Source: Shapiro et al., "A comprehensive study of Convergent and Commutative Replicated Data Types" (2011), 3.1.3.
    """

    plus: GCounter = field(default_factory=GCounter)
    minus: GCounter = field(default_factory=GCounter)

    @classmethod
    def bottom(cls) -> PNCounter:
        """Return the empty counter."""
        return cls()

    @property
    def value(self) -> int:
        """Increments less decrements, as far as this state knows."""
        return self.plus.value - self.minus.value

    def increment(self, actor: bytes, amount: int = 1) -> PNCounter:
        """Return the counter after the actor has added ``amount``."""
        return replace(self, plus=self.plus.increment(actor, amount))

    def decrement(self, actor: bytes, amount: int = 1) -> PNCounter:
        """Return the counter after the actor has taken ``amount`` away."""
        return replace(self, minus=self.minus.increment(actor, amount))

    def increment_delta(self, actor: bytes, amount: int = 1) -> PNCounter:
        """Return only the slot that `increment` would change."""
        return PNCounter(plus=self.plus.delta(actor, amount))

    def decrement_delta(self, actor: bytes, amount: int = 1) -> PNCounter:
        """Return only the slot that `decrement` would change."""
        return PNCounter(minus=self.minus.delta(actor, amount))

    def merge(self, other: PNCounter, /) -> PNCounter:
        """Return the larger of each slot of either sign."""
        return PNCounter(self.plus.merge(other.plus), self.minus.merge(other.minus))

    def __le__(self, other: PNCounter, /) -> bool:
        """True if no slot of either sign is above the other's."""
        return self.plus <= other.plus and self.minus <= other.minus

    def decompose(self) -> Iterator[PNCounter]:
        """Yield one state for each actor and sign."""
        yield from (PNCounter(plus=part) for part in self.plus.decompose())
        yield from (PNCounter(minus=part) for part in self.minus.decompose())
