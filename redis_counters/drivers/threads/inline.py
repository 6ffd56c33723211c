"""Flushes of callers, where no thread can be started, or the one there is makes no progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from redis_counters.drivers.client_state import ClientState
from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.pacing import MAX_PAUSE_S
from redis_counters.drivers.threads.background import Background
from redis_counters.drivers.threads.flusher import Flusher
from redis_counters.drivers.threads.rounds import Rounds
from redis_counters.errors import CounterError

MIN_ROUND_S = 0.5  # that a round of a caller may take at least, however little time there is


@dataclass(eq=False)
class Inline:
    """Runs rounds in the thread that counts, reads or waits."""

    state: ClientState
    background: Background
    rounds: Rounds
    flusher: Flusher
    due: float = 0.0  # by the monotonic clock
    backoff: float = 0.0  # seconds

    def flush_if_due(self) -> None:
        """A caller flushes once per interval; less often while that fails."""
        if self.state.core.writer.events:
            self.state.publish()
        if not self.background.unavailable or self.rounds.lock.locked():
            return
        begun = monotonic()
        if begun < self.due or self.flusher.nothing_to_do():
            return
        interval = self.background.interval
        self.due = begun + interval
        try:
            self.rounds.flush()
            self.backoff = 0.0
        except CounterError:
            now = monotonic()
            self.backoff = min(max(2 * self.backoff, interval), MAX_PAUSE_S)
            self.due = now + max(self.backoff, now - begun)  # at most half of the time is spent on waiting

    def work_until(self, done: Callable[[], bool], deadline: float) -> None:
        """Run rounds until it is done, or the deadline has passed."""
        pause = 0.01
        while True:
            with self.state.lock:
                if done() or self.state.stopped:
                    return
            if monotonic() >= deadline:
                return
            try:
                if not self.rounds.lock.locked():
                    self.rounds.flush(Deadline(max(MIN_ROUND_S, deadline - monotonic())))
                    continue
            except CounterError:
                pass
            time.sleep(min(pause, max(0.0, deadline - monotonic())))
            pause = min(pause * 2, MAX_PAUSE_S)
