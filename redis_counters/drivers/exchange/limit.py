"""Until when threads work for one call of `run_once`: a deadline, or until its caller does not wait any more."""

from __future__ import annotations

import threading

from redis_counters.drivers.clock import monotonic

BEAT = 0.1  # seconds between looks at whether to end, while an answer is awaited


class RunLimit:
    """Until when the threads of a `run_once` go on; ``over``: it has ended, however it did."""

    def __init__(self, timeout: float | None) -> None:
        self.deadline = None if timeout is None else monotonic() + timeout
        self.over = False

    def reached(self) -> bool:
        return self.over or (self.deadline is not None and monotonic() >= self.deadline)

    def left(self) -> float | None:
        """Return how long to wait for one that looks at it every `BEAT`; None: as long as it takes."""
        return None if self.deadline is None else seconds_until(self.deadline + 2 * BEAT)


def seconds_until(deadline: float) -> float:
    """Return how long to wait; no longer than locks can, for callers may be as patient as they like."""
    return min(max(0.0, deadline - monotonic()), threading.TIMEOUT_MAX)
