"""Bringing the counts of ``count`` to Redis: in bounded memory, and in short steps, so that the bar moves."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from redis_counters import Counters, Stats
from redis_counters.cli import output
from redis_counters.cli.client import wait_ready
from redis_counters.cli.counting.progress import REFRESH, Progress, Show, show_nothing
from redis_counters.cli.stop_signals import Stop
from redis_counters.drivers.urls import open_url
from redis_counters.errors import CounterError, Refused, Unavailable

MAX_PENDING = 500_000
# A client keeps its totals for a while, to send them again after a fail-over: some 250 bytes for each name.
MAX_SLOTS = 1_000_000
_NAMES_SHOWN = 5
# Seconds. An attempt that fails gathers what is pending, which takes a while for many names: not too often.
_STEP = 1.0
# Seconds for closing the actors and folding their slots: counts are safe already, this only tidies up.
_CLOSE = 30.0


class _Silence:
    """Reports once that nothing arrives while reading goes on: with an endless input it would not show otherwise."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._flushed, self._since, self._reported = 0, time.monotonic(), False

    def watch(self, stats: Stats) -> None:
        if stats.flushed != self._flushed or not stats.pending:
            self._flushed, self._since, self._reported = stats.flushed, time.monotonic(), False
        elif not self._reported and time.monotonic() - self._since > self._limit:
            self._reported = True
            reason = stats.last_error or "it takes too long"
            output.complain(
                f"nothing has reached Redis for {self._limit:g} s: {reason}; reading goes on,"
                " and what is counted is sent again"
            )


class Delivery:
    """Counts blocks of names. ``timeout``: seconds to wait for a Redis that is away; ``show`` draws the bar."""

    def __init__(self, url: str, namespace: str, region: str, done: Progress, stop: Stop, timeout: float) -> None:
        self.show: Show = show_nothing
        self._opened = open_url(url, asyncio=False)
        self._options: dict[str, Any] = {"namespace": namespace, "region": region}
        self._done = done
        self._stop = stop
        self._timeout = timeout
        self._flushed_before = 0
        self._silence = _Silence(max(timeout, _STEP))
        self._counters = self._new_counters()

    def __enter__(self) -> Delivery:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the client: nothing more is sent, not even when the interpreter ends."""
        with suppress(CounterError):
            self._counters.close(timeout=0)
        self._opened.stop_all()

    def check(self, seconds: float | None = None) -> None:
        """Read from Redis before anything is counted. Raises as `wait_ready`."""
        wait_ready(self._counters, seconds, stop=self._stop)

    def count(self, names: Mapping[bytes, int], prefix: bytes) -> bool:
        """Count all of these names. False if a signal came while it waited for Redis: then none of them is counted.

        Raises: Unavailable, if Redis acknowledges nothing within the time-out; then too none is counted.
        """
        if not self._make_room(len(names)):
            return False
        self._silence.watch(self._counters.stats())
        incr = self._counters.incr
        for name, times in names.items():
            incr(prefix + name, times)
        return True

    def refresh(self, note: str = "") -> None:
        """Draw the bar again."""
        self.show(self._done, self._flushed_before + self._counters.stats().flushed, note)

    def finish(self) -> None:
        """Flush all that was counted, and fold it.

        Raises: Unavailable, with a summary of what was not acknowledged within the time-out; Refused, for a counter
        that Redis refuses, when all others are in Redis.
        """
        self._finish(time.monotonic() + self._timeout)

    def _finish(self, deadline: float) -> None:
        try:
            while (rest := deadline - time.monotonic()) > _STEP:
                try:
                    self._counters.flush(timeout=_STEP)
                    break
                except Unavailable:
                    self.refresh("interrupted, flushing" if self._stop else "flushing")
            self._counters.flush(timeout=max(0.0, rest))
            self.refresh("folding")
            self._counters.close(timeout=_CLOSE)
        except Unavailable as error:
            raise self._undelivered(error) from error
        except Refused as error:
            missing = f"{self._counters.stats().pending:,} names are not known to be in Redis"
            with suppress(CounterError):
                self._counters.close(timeout=_CLOSE)
            raise Refused(f"{error}; of {self._done.position}, {missing}", counter=error.counter) from error

    def _new_counters(self) -> Counters:
        return Counters(self._opened.client, **self._options, max_pending=MAX_PENDING)

    def _make_room(self, names: int) -> bool:
        """Wait before a block for room in the buffer, so that ``incr`` never refuses in the middle of one."""
        flushed, deadline = -1, 0.0
        while (stats := self._counters.stats()).pending + names > MAX_PENDING:
            if self._stop:
                return False
            if stats.flushed != flushed:
                flushed, deadline = stats.flushed, time.monotonic() + self._timeout
            elif time.monotonic() > deadline:
                self._finish(deadline)  # raises, unless all is acknowledged in the last moment
                self._renew()
                return True
            self.refresh("waiting for Redis")
            time.sleep(REFRESH / 4)
        if stats.slots > MAX_SLOTS:
            self.finish()
            self._renew()
        return True

    def _renew(self) -> None:
        """Replace the client, which is closed."""
        self._flushed_before += self._counters.stats().flushed
        self._counters = self._new_counters()

    def _undelivered(self, error: Unavailable) -> Unavailable:
        """Return the error with a summary of what is missing: this process ends, and keeps nothing."""
        reason = self._counters.stats().last_error or "Redis takes too long"
        amounts = sorted(error.pending.items(), key=lambda item: (-abs(item[1]), str(item[0])))
        names = [output.printable(name) for name, _ in amounts]
        shown = ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")
        missing = f"{sum(error.pending.values()):,} are not known to be in Redis, {len(names):,} names: {shown}"
        return Unavailable(f"{reason}; of {self._done.position}, {missing}", pending=error.pending)
