"""When counters expire, by name: each flush of such a counter brings that along, so that no shard is ever without it.

A moment is kept as long as something may count with it: a handle, a slot, a buffer, a journal.
"""

from __future__ import annotations

import datetime
import math
import weakref
from collections.abc import Callable, Iterable

from redis_counters.errors import UsageError
from redis_counters.protocol.wire.keys import name_of

Moment = float | datetime.datetime
MAX_MOMENT_MS = 253_402_300_800_000  # the end of the year 9999: a moment beyond it means milliseconds, or never
MAX_EXPIRED = 1_000  # names whose time is over, until it is looked which of them are needed


class Expiry:
    """When a counter expires, epoch milliseconds. A handle holds it, so that it is known as long as the handle is."""

    __slots__ = ("__weakref__", "at")

    def __init__(self, at: int) -> None:
        self.at = at


def seconds(option: str, moment: Moment) -> float:
    """Return the moment as epoch seconds. Raises TypeError, UsageError, by the name of the option."""
    if isinstance(moment, datetime.datetime):
        if moment.tzinfo is None:
            raise UsageError(f"{option} must have a time zone, got {moment!r}")
        return moment.timestamp()
    if isinstance(moment, bool) or not isinstance(moment, (int, float)):
        raise TypeError(f"{option} must be epoch seconds or a datetime, not {type(moment).__name__}")
    if not abs(moment) * 1000 <= MAX_MOMENT_MS:  # (nor NaN)
        raise UsageError(f"{option} must be epoch seconds, got {moment}")
    return float(moment)


def future_milliseconds(expire_at: Moment, now: float) -> int:
    """Return the moment as epoch milliseconds. Raises TypeError, UsageError (also for one that is over)."""
    at = seconds("expire_at", expire_at)
    if at <= now:
        raise UsageError(f"expire_at must be in the future, got {expire_at}, and it is {now:.3f}")
    return math.ceil(at * 1000)


class Expiries:
    """When counters expire; of what was asked for, the latest counts."""

    __slots__ = ("changed", "known", "most")

    def __init__(self, *, journal: bool) -> None:
        self.known: dict[bytes, Expiry] = {}
        self.changed: dict[bytes, None] | None = {} if journal else None  # since the journal saw it
        self.most = MAX_EXPIRED

    def ask(self, name: bytes, at: int) -> Expiry:
        """The counter expires then (epoch milliseconds), and not earlier."""
        expiry = self.known.setdefault(name, Expiry(at))
        expiry.at = max(at, expiry.at)
        if self.changed is not None:
            self.changed[name] = None
        return expiry

    def take_changes(self) -> dict[bytes, None]:
        """Return the names of those that changed since the last time."""
        changed, self.changed = self.changed, self.changed and {}
        return changed or {}

    def change(self, names: Iterable[bytes]) -> None:
        """These are to be among the changes (again)."""
        if self.changed is not None:
            self.changed.update(dict.fromkeys(names))

    def among(self, keys: Iterable[bytes]) -> list[int]:
        """Return, of each shard's key whose counter expires: its position, from 1, and when."""
        known = self.known
        found: list[int] = []
        if not known:
            return found
        for position, key in enumerate(keys, 1):
            expiry = known.get(name_of(key))
            if expiry is not None:
                found += (position, expiry.at)
        return found

    def forget(self, now: int, owned: Callable[[bytes], bool]) -> None:
        """Drop counters that have expired (``now``: epoch milliseconds) and that nothing here counts."""
        if len(self.known) < self.most:
            return
        for name in list(self.known):
            if self.known[name].at <= now and not owned(name):
                held = weakref.ref(self.known.pop(name))()
                if held is not None:  # by a handle
                    self.known[name] = held
                else:
                    self.change((name,))
        self.most = max(MAX_EXPIRED, 2 * len(self.known))
