"""The terms, once.

State
    What one replica knows. A value: operations return a new one.
Order ``<=``
    ``a <= b``: everything that a knows, b knows. Partial: two states may each know what the other does not.
Bottom
    The state that knows nothing; below every other.
Merge
    The least upper bound: the lowest state that knows what either knows. So it is commutative, associative and
    idempotent: an old, repeated or reordered copy of what was merged before changes nothing. Never an addition.
Operation
    A step upwards of one replica in its own name: the state after it is never below, nor beside, the one before.
Delta
    A small state that does what an operation did: ``before.merge(delta) == after``. It merges like a full state.
Parts
    The irreducible states below a state whose merge is that state, each needed: what a minimal delta is made of.

A type that keeps these laws converges on any network that delivers in the end, however often and in whatever order.
Equal states have equal values; equal values do not make states equal. All of it rests on one duty of the replica: its
own entries never go back. One that lost state takes a new name.

Source: Shapiro, Preguica, Baquero, Zawirski, "Conflict-free Replicated Data Types" (2011), section 2; deltas: Almeida,
Shoker, Baquero, "Delta State Replicated Data Types" (2018); parts: Enes, Almeida, Baquero, Leitao, "Efficient
Synchronization of State-based CRDTs" (2019), section III.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self  # in typing from 3.11

__all__ = ["Decomposable", "State", "merge_all"]


class State(Protocol):
    """A value of a join semilattice with a bottom."""

    @classmethod
    def bottom(cls) -> Self:
        """The state that knows nothing."""

    def merge(self, other: Self, /) -> Self:
        """The least upper bound of both."""

    def __le__(self, other: Self, /) -> bool:
        """Whether the other knows all that this one knows: ``self.merge(other) == other``."""


class Decomposable(State, Protocol):
    """A state that can be taken apart."""

    def decompose(self) -> Iterable[Self]:
        """Its parts: no fewer of them merge to it, and none is the merge of lower states."""


S = TypeVar("S", bound=State)


def merge_all(states: Iterable[S], bottom: S) -> S:
    """The least upper bound of the states; of none, the bottom."""
    return reduce(lambda a, b: a.merge(b), states, bottom)
