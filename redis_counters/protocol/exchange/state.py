"""What is known of one bucket of one directed pair, between two looks at it. All of it may be forgotten at any time."""

from __future__ import annotations

from redis_counters.errors import CounterError
from redis_counters.protocol.exchange.pace import Pace

OVERDUE = 1.0  # seconds that a look may take
MOST_FLOORED = 10_000  # shards that are remembered to be cleaned up


class BucketSync:
    """``mark``: what the destination holds of the source; None if it is to be read there."""

    __slots__ = (
        "caught_up",
        "error",
        "floored",
        "looked",
        "mark",
        "next_drop",
        "number",
        "pace",
        "shared_until",
        "suspect",
        "version",
    )

    def __init__(self, number: int, pace: Pace) -> None:
        self.number = number
        self.pace = pace
        self.mark: bytes | None = None
        self.version: bytes | None = None  # of the source's last change, when nothing was left to be pulled
        self.error: CounterError | None = None  # that the last look failed with
        self.shared_until = 0.0  # when it is believed again that no other exchange moves the mark
        self.suspect = False  # both sides are to be compared at once: the source is new, or a repair was void
        self.looked = 0.0  # when the mark was last read, and the source asked in earnest
        self.caught_up: float | None = None  # as of when the destination had all
        self.floored: dict[bytes, int] = {}  # members with entries that count for nothing; how often they were tried
        self.next_drop = 0.0  # when that is tried next

    def lag(self, now: float) -> float | None:
        """Return for how long the destination may have lacked something, in seconds; None if it never had all.

        Where it had all when it was last looked, and the next look is not overdue, nothing is known to be lacking.
        """
        if self.caught_up is None:
            return None
        if self.error is None and now <= self.pace.next + OVERDUE:
            return 0.0
        return max(0.0, now - self.caught_up)

    def forget(self) -> None:
        """The connections are new ones: another server may answer now."""
        self.mark = self.version = None

    def noticed(self, member: bytes) -> None:
        """There are entries in this shard that count for nothing."""
        if len(self.floored) < MOST_FLOORED:
            self.floored.setdefault(member, 0)
