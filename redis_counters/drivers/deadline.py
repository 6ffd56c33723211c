"""Until when a call waits. What a server does, or how slowly, makes no call last longer."""

from __future__ import annotations

from redis_counters.drivers.clock import monotonic

CALL_TIMEOUT_S = 10.0  # that a call which asks Redis may take, all of it
GRACE_S = 0.2  # for what has arrived already when the time is over


class Deadline:
    """A moment of the real clock, and how long before it was set."""

    __slots__ = ("at", "seconds")

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = CALL_TIMEOUT_S if seconds is None else seconds
        self.at = monotonic() + self.seconds

    def left(self) -> float:
        """Return the seconds left, 0 when it has passed."""
        return max(0.0, self.at - monotonic())

    @property
    def words(self) -> str:
        return f"no answer within {self.seconds:.3g} s"
