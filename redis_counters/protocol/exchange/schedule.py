"""When the next range is compared: all buckets one after the other, so slowly that a quiet pair stays quiet."""

from __future__ import annotations

from redis_counters.protocol.exchange.compare import Comparison

CYCLE = 300.0  # seconds that it takes at least to go through everything once
RATE = 140 / 60  # bytes a second and bucket; looks for changes, and heartbeats, take another 830 a minute
PAUSE = 1.0  # seconds after one that failed
FIRST = 10.0  # seconds within which the first one begins


class Schedule:
    """Of one pair. ``at_once``: comparisons of buckets that may differ, which are not paced."""

    def __init__(self, now: float, chance: float) -> None:
        self.next = now + FIRST * chance
        self.began = self.next
        self.bucket = 0
        self.current: Comparison | None = None
        self.at_once: dict[int, Comparison] = {}
        self.not_before = now  # at_once is not gone on with, because it failed

    def restart(self) -> None:
        """The connections are new: what was begun is begun again."""
        self.current = None
        self.at_once.clear()

    def failed_at_once(self, now: float) -> None:
        """A comparison that is not paced did not go through."""
        self.at_once.clear()
        self.not_before = now + PAUSE

    def begin(self, comparison: Comparison, now: float) -> None:
        """This is the next bucket."""
        if self.bucket == 0:
            self.began = now
        self.current = comparison

    def stepped(self, size: int, buckets: int, now: float, *, failed: bool = False) -> None:
        """A range was compared, which took so many bytes."""
        self.next = now + size / (RATE * buckets)
        if self.current is not None and (self.current.done or failed):
            self.current = None
            self.bucket = (self.bucket + 1) % buckets
            if self.bucket == 0:
                self.next = max(self.next, self.began + CYCLE)
        if failed:
            self.next = max(self.next, now + PAUSE)
