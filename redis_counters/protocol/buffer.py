"""Increments on their way from callers to totals: two logs, appended to without a lock, drained by one at a time.

Appending to a list is atomic in CPython, and so are taking its first n entries and deleting them: an increment is
taken exactly once however many threads append meanwhile. A lock around a total, the obvious way, costs three times
the whole of an increment. Memory is one pointer per increment, for one flush interval.
"""

from __future__ import annotations

from collections import Counter


class Buffer:
    """``ones``: a name per increment by 1, the common case. ``amounts``: (name, signed amount) for all others."""

    __slots__ = ("amounts", "ones")

    def __init__(self) -> None:
        self.ones: list[str | bytes] = []
        self.amounts: list[tuple[str | bytes, int]] = []

    def __bool__(self) -> bool:
        return bool(self.ones or self.amounts)

    def drain_ones(self) -> dict[str | bytes, int]:
        """Return the count per name of what was in the log, and remove it. Cost: O(increments)."""
        count = len(self.ones)
        taken = self.ones[:count]
        del self.ones[:count]
        return Counter(taken)

    def drain_amounts(self) -> list[tuple[str | bytes, int]]:
        """Return (name, signed amount) of what was in the log, and remove it. Cost: O(calls)."""
        count = len(self.amounts)
        taken = self.amounts[:count]
        del self.amounts[:count]
        return taken

    def clear(self) -> None:
        """Forget everything, in place: after a fork it belongs to the parent, and handles keep these very lists."""
        self.ones.clear()
        self.amounts.clear()
