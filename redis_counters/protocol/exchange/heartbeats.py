"""Heartbeats of an exchange in a region, one for each region whose changes it brings there.

They are fields among the marks of the first bucket (`exchange_beat`), one for each source and exchange.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

FEW = 8  # buckets; where there are fewer, heartbeats are as much rarer, to take no larger part of what is sent
EVERY = 60.0  # seconds
LATE = 3  # intervals, and half a minute, that an exchange may miss before it counts as stopped
_PREFIX = b"h:"


class Beat(NamedTuple):
    """``at`` by the region's clock, ``clock`` by the source's, in milliseconds; ``every``: 0 for the last one."""

    source: bytes
    by: bytes
    at: int
    clock: int
    every: int

    @property
    def skew(self) -> float:
        """Seconds by which the source's clock was ahead of the region's, without the time of the message."""
        return (self.clock - self.at) / 1000

    def late(self, now: int) -> bool:
        """True if the next heartbeat is overdue; ``now``: of the region's clock, milliseconds."""
        return now > self.at + LATE * self.every + 30_000


def pause(buckets: int) -> float:
    """Return the seconds between heartbeats of one exchange for one source."""
    return EVERY * max(1.0, FEW / buckets)


def beats_in(marks: Mapping[bytes, bytes]) -> list[Beat]:
    """Return the heartbeats among these marks, the latest first."""
    return sorted(_beats(marks.items()), key=lambda beat: -beat.at)


def _beats(fields: Iterable[tuple[bytes, bytes]]) -> Iterable[Beat]:
    for field, value in fields:
        source, _, by = field[len(_PREFIX) :].partition(b" ")
        numbers = value.split(b" ")
        if field.startswith(_PREFIX) and len(numbers) == 3 and all(map(bytes.isdigit, numbers)):
            yield Beat(source, by, *map(int, numbers))
