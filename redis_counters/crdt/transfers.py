"""Rights that holders gave to each other: a cell for each giver and receiver, written by the giver, merged by maximum.

A cell holds how much was ever given, so it only grows: a message that is lost is made good by any later one, and a
repeated or old one changes nothing. Giver and receiver never hold the same right: the giver's own cell shows it gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from redis_counters.crdt.gcounter import GCounter
from redis_counters.errors import UsageError

__all__ = ["Transfers"]


@dataclass(frozen=True, slots=True)
class Transfers:
    """For each receiver a G-counter, in which each giver has a slot; one that counts nothing is not kept.

    Cost: every operation is O(cells).
    Raises: as `GCounter`; UsageError for a transfer to oneself.
    """

    received: Mapping[bytes, GCounter] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kept = {receiver: given for receiver, given in self.received.items() if given.slots}
        object.__setattr__(self, "received", MappingProxyType(kept))

    @classmethod
    def bottom(cls) -> Transfers:
        """Nothing given by anyone."""
        return cls()

    def net(self, holder: bytes) -> int:
        """The total that the holder received, less what it gave; its own copy may be too low, never too high."""
        given = sum(each.slots.get(holder, 0) for each in self.received.values())
        return self._to(holder).value - given

    def delta(self, giver: bytes, receiver: bytes, amount: int) -> Transfers:
        """One cell, with its new total, by which the giver has given ``amount`` more."""
        if giver == receiver:
            raise UsageError("a transfer goes to another holder")
        return Transfers({receiver: self._to(receiver).delta(giver, amount)})

    def merge(self, other: Transfers, /) -> Transfers:
        """Of each cell, the larger."""
        receivers = {**self.received, **other.received}
        return Transfers({receiver: self._to(receiver).merge(other._to(receiver)) for receiver in receivers})

    def __le__(self, other: Transfers, /) -> bool:
        """Whether no cell is above the other's."""
        return all(given <= other._to(receiver) for receiver, given in self.received.items())

    def decompose(self) -> Iterator[Transfers]:
        """One state for each cell."""
        for receiver, given in self.received.items():
            yield from (Transfers({receiver: part}) for part in given.decompose())

    def __hash__(self) -> int:
        return hash(frozenset(self.received.items()))

    def _to(self, receiver: bytes) -> GCounter:
        return self.received.get(receiver, GCounter())
