"""Increments on their way from callers to totals: two logs, appended to without a lock; `intake.py` empties them.

Appending to a list is atomic in CPython, and so are taking its first n entries and deleting them: an increment is
taken exactly once however many threads append meanwhile. A lock around a total, the obvious way, costs three times
the whole of an increment. Memory is one pointer per increment, for one flush interval.
"""

from __future__ import annotations


class Buffer:
    """``ones``: a name per increment by 1, the common case. ``amounts``: (name, signed amount) for all others."""

    __slots__ = ("amounts", "ones")

    def __init__(self) -> None:
        self.ones: list[str | bytes] = []
        self.amounts: list[tuple[str | bytes, int]] = []

    def __bool__(self) -> bool:
        return bool(self.ones or self.amounts)

    def clear(self) -> None:
        """Forget everything, in place: after a fork it belongs to the parent, and handles keep these very lists."""
        self.ones.clear()
        self.amounts.clear()
