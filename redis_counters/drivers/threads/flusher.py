"""The background thread of the blocking driver: flushes at its pace, keeps house between rounds, never ends."""

from __future__ import annotations

import threading

from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.pacing import IDLE_POLL, MOST_PAUSE, retry_options
from redis_counters.drivers.threads.background import Background
from redis_counters.drivers.threads.pace import keep_house, pause, rest_or_keep_house, round_unless_stopped
from redis_counters.drivers.threads.rounds import Rounds
from redis_counters.drivers.transport import Transport
from redis_counters.errors import CounterError
from redis_counters.events import EventKind, log
from redis_counters.protocol.core import Core


class Flusher(Rounds):
    """What the thread does."""

    def __init__(self, core: Core, transport: Transport) -> None:
        # Not in the thread: a fork during an import leaves the import's lock held in the child for ever.
        from tenacity import Retrying

        super().__init__(core, transport)
        self.retrying = Retrying(sleep=self._pause, **retry_options(core))

    def _reset(self) -> None:
        super()._reset()
        self.background = Background(
            self._work,
            self._absorb_meanwhile,
            bury=self._bury,
            report=self._report,
            slack=self.core.settings.flush_interval,
        )

    def _report(self, text: str) -> None:
        """The next `publish` logs what happened to the background."""
        self.core.report(EventKind.FLUSHER_RESTARTED, text)

    def _work(self) -> None:
        try:
            self._wait_and_flush()
            keep_house(self)
        except BaseException as error:  # a fault of ours, of a client, or SystemExit: callers must not wait for ever
            if self.stopped:
                return
            log.exception("flushing failed unexpectedly, going on")
            if not isinstance(error, Exception):
                self._report(f"the thread that flushes was to end by {type(error).__name__}, it goes on")
                self.publish()
            self._pause(MOST_PAUSE)

    def _wait_and_flush(self) -> None:
        background = self.background
        background.beat()
        if background.asked.wait(self._patience()):
            self.expecting = monotonic() + IDLE_POLL
        background.beat()
        if self._nothing_to_do():
            return
        if not rest_or_keep_house(self, self.core.settings.flush_interval) and self._nothing_to_do():
            return
        self.urgent.silence()
        self.retrying(round_unless_stopped, self)

    def _patience(self) -> float:
        with self.lock:
            if not self.core.writer.clean:
                return 0.0
            longest = min(IDLE_POLL, self.core.housekeeping.wait())
        # A thread that counts asks first: its increment may come a little later than that.
        return min(longest, self.core.settings.flush_interval) if monotonic() < self.expecting else longest

    def _nothing_to_do(self) -> bool:
        with self.lock:
            return not self.urgent.rings() and self.core.nothing_to_do()

    def _pause(self, seconds: float) -> None:
        pause(self, seconds)

    def _absorb_meanwhile(self) -> None:
        """While a round takes long (redis-py may be connecting), the buffer must not grow with every increment."""
        self.background.helping.wait(IDLE_POLL)
        while self.in_round and not self.stopped:
            self.ended.wait(self.core.settings.flush_interval)
            wanted = self.core.overdue or self.recording is not None
            if self.in_round and wanted and self.lock.acquire(blocking=False):
                try:
                    self.core.writer.absorb()
                finally:
                    self.lock.release()
                if self.recording is not None:
                    self.recording.own()

    def _bury(self, gone: threading.Thread) -> None:
        """What a flusher held that ended without a word (C code may end a thread) is free again."""
        if self.rounder is gone:
            steps, self.steps = self.steps, None
            self._leave_round()
            self.rounding = threading.Lock()
            with self.lock:
                if steps is not None:
                    steps.close()
                else:
                    self.core.housekeeping.abandoned()
            if self.recording is not None:
                self.recording.bury()

    def _flush_inline_if_due(self) -> None:
        """With no thread that does it, a caller flushes once per interval; less often while that fails."""
        if self.core.writer.events:
            self.publish()
        if not self.background.absent or self.rounding.locked():
            return
        begun = monotonic()
        if begun < self.inline_flush_due or self._nothing_to_do():
            return
        interval = self.core.settings.flush_interval
        self.inline_flush_due = begun + interval
        try:
            self.round()
            self.inline_backoff = 0.0
        except CounterError:
            now = monotonic()
            self.inline_backoff = min(max(2 * self.inline_backoff, interval), MOST_PAUSE)
            self.inline_flush_due = now + max(
                self.inline_backoff, now - begun
            )  # at most half of the time is spent on waiting
