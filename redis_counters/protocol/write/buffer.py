"""Increments on their way from callers to totals: two logs, appended to without a lock; `accumulator.py` empties them.

Appending to a list is atomic in CPython, and so are taking its first n entries and deleting them: an increment is
taken exactly once however many threads append meanwhile. A lock around a total, the obvious way, costs three times
the whole of an increment. Memory is one pointer per increment, for one flush interval.
"""

from __future__ import annotations

from enum import Enum, auto


class Counted(Enum):
    """Where an amount is counted for which a flush was to be requested."""

    HERE = auto()  # it is in the totals, or in the journal
    BY_CALLER = auto()  # the flush is scheduled: the caller appends the amount to the buffer


class Sign:
    """True once its ``value`` is. Drivers have signs whose truth is looked up faster, and is gone in a forked child."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = False

    def __bool__(self) -> bool:
        return self.value


class Buffer:
    """``ones``: a name per increment by 1, the common case. ``amounts``: (name, signed amount) for all others.

    ``flush_requested``: since the buffer was emptied; while it is not set, the next increment requests a flush, and
    learns whether it may count. It is set before anything is entered, and cleared after all was taken out: so it
    may be missing while something is in there, and one more flush is requested. The other way round none would be.
    """

    __slots__ = ("amounts", "flush_requested", "ones")

    def __init__(self, flush_requested: Sign | None = None) -> None:
        self.ones: list[str | bytes] = []
        self.amounts: list[tuple[str | bytes, int]] = []
        self.flush_requested = Sign() if flush_requested is None else flush_requested

    def __bool__(self) -> bool:
        return bool(self.ones or self.amounts)

    def clear(self) -> None:
        """Forget everything, in place: after a fork it belongs to the parent, and handles keep these very lists."""
        self.ones.clear()
        self.amounts.clear()
        self.flush_requested.value = False
