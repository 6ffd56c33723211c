"""When a bucket is asked for changes: often while there are some, seldom while there are none."""

from __future__ import annotations

QUIET = 10.0  # seconds between looks at a bucket where nothing changes: a look and its answer are about 50 bytes
MOST_PAUSE = 2.0  # seconds between attempts at a bucket that fails


class Pace:
    """Of one bucket. Times are those of a clock that only runs forward, in seconds."""

    __slots__ = ("interval", "next", "quiet", "wait")

    def __init__(self, interval: float, now: float, quiet: float = QUIET) -> None:
        self.interval = interval
        self.quiet = max(quiet, interval)
        self.wait = interval
        self.next = now

    @property
    def slow(self) -> bool:
        """True if the last look found nothing."""
        return self.wait > self.interval

    def changed(self, began: float) -> None:
        """The look that began then found changes."""
        self.wait = self.interval
        self.next = began + self.wait

    def same(self, began: float) -> None:
        """It found none."""
        self.wait = min(2 * self.wait, self.quiet)
        self.next = began + self.wait

    def failed(self, now: float, chance: float) -> None:
        """It did not go through; ``chance`` (0 to 1) keeps exchanges apart that fail together."""
        self.wait = min(2 * self.wait, max(MOST_PAUSE, self.interval))
        self.next = now + self.wait * (0.5 + chance / 2)

    def at_once(self, now: float) -> None:
        """It is due now, and looked at as if there had been changes."""
        self.wait = self.interval
        self.next = now
