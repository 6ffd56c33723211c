"""A counter that only grows: one slot for each actor, merged by maximum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from redis_counters.errors import UsageError

__all__ = ["GCounter"]


@dataclass(frozen=True, slots=True)
class GCounter:
    """The amount that each actor has counted in all; an absent slot is 0, so zeros are not kept.

    An actor raises its own slot only, and no two writers are ever the same actor. Ints are exact, whatever their size.

    Cost: every operation is O(slots).
    Raises: UsageError for a negative amount or slot, TypeError for one that is not an int (a bool is none).
    Source: Shapiro et al., "A comprehensive study of Convergent and Commutative Replicated Data Types" (2011), 3.1.2.
    """

    slots: Mapping[bytes, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kept = {actor: total for actor, total in self.slots.items() if _count(total)}
        object.__setattr__(self, "slots", MappingProxyType(kept))

    @classmethod
    def bottom(cls) -> GCounter:
        """Return the empty counter."""
        return cls()

    @property
    def value(self) -> int:
        """The sum of the slots: all that this state knows, never more than was counted."""
        return sum(self.slots.values())

    def increment(self, actor: bytes, amount: int = 1) -> GCounter:
        """Return the counter after the actor has counted ``amount`` more."""
        return self.merge(self.delta(actor, amount))

    def delta(self, actor: bytes, amount: int = 1) -> GCounter:
        """Return only the slot that `increment` would change, with its new total. Amounts do not merge."""
        return GCounter({actor: self.slots.get(actor, 0) + _count(amount)})

    def merge(self, other: GCounter, /) -> GCounter:
        """Return the larger of each slot."""
        slots = dict(self.slots)
        for actor, total in other.slots.items():
            if total > slots.get(actor, 0):
                slots[actor] = total
        return GCounter(slots)

    def __le__(self, other: GCounter, /) -> bool:
        """True if no slot is above the other's."""
        return all(total <= other.slots.get(actor, 0) for actor, total in self.slots.items())

    def decompose(self) -> Iterator[GCounter]:
        """Yield one state for each slot."""
        return (GCounter({actor: total}) for actor, total in self.slots.items())

    def __hash__(self) -> int:
        return hash(frozenset(self.slots.items()))


def _count(amount: int) -> int:
    if isinstance(amount, bool) or not isinstance(amount, int):
        raise TypeError(f"an amount is an int, not {type(amount).__name__}")
    if amount < 0:
        raise UsageError(f"an amount is not negative: {amount}; a maximum would lose it, count it in a slot of its own")
    return amount
