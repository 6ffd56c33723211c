"""Counters per day, hour or minute: a name with the beginning of the period in it, and when the period ends."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Generic, TypeVar

from redis_counters.errors import UsageError
from redis_counters.protocol.write.expiries import Moment, seconds

N = TypeVar("N", str, bytes)

DAY, MINUTE = 86_400, 60


@dataclass(frozen=True, slots=True)
class Period(Generic[N]):
    """The counter of a period: ``name``, and from when (inclusive) to when (not), epoch seconds."""

    name: N
    start: int
    end: int


def period(name: N, every: float | timedelta, at: Moment | None = None) -> Period[N]:
    """Return the period that a moment lies in (default: now), with the name of its counter.

    ``every``: how long periods are, whole seconds or a timedelta; they follow each other from 1970-01-01 UTC on, so all
    processes agree on them. ``at``: epoch seconds, or a datetime with a time zone.
    The name ends in the beginning of the period: ``views:2026-11-28``, or ``views:2026-11-28T14:05Z`` where a period
    is no whole number of days.
    Raises: TypeError, UsageError.
    """
    if not isinstance(name, (str, bytes)):
        raise TypeError(f"name must be a str or bytes, not {type(name).__name__}")
    length = _length(every)
    start = math.floor(seconds("at", time.time() if at is None else at) / length) * length
    try:
        begins = datetime.fromtimestamp(start, timezone.utc)
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"at must be between the years 1 and 9999, got {at!r}") from None
    if length % DAY == 0:
        stamp = f"{begins:%Y-%m-%d}"
    else:
        stamp = f"{begins:%Y-%m-%dT%H:%M}Z" if length % MINUTE == 0 else f"{begins:%Y-%m-%dT%H:%M:%S}Z"
    return Period(name + (f":{stamp}" if isinstance(name, str) else b":" + stamp.encode()), start, start + length)


def _length(every: float | timedelta) -> int:
    if isinstance(every, timedelta):
        every = every.total_seconds()
    if isinstance(every, bool) or not isinstance(every, (int, float)):
        raise TypeError(f"every must be seconds or a timedelta, not {type(every).__name__}")
    if not 1 <= every < math.inf or every != int(every):
        raise UsageError(f"every must be a whole number of seconds, 1 or more, got {every!r}")
    return int(every)
