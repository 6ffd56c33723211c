"""What an increment does that finds no flush requested, or the buffer full, in the blocking face."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from redis_counters.drivers.client_state import ClientState
from redis_counters.drivers.pacing import buffer_full, closed
from redis_counters.drivers.threads.background import Background
from redis_counters.drivers.threads.inline import Inline
from redis_counters.drivers.threads.recording import Recording
from redis_counters.drivers.threads.waiting import Waiting
from redis_counters.protocol.wire.values import Name
from redis_counters.protocol.write.buffer import Counted


@dataclass(eq=False)
class Counting:
    """Has the background flush; where that cannot be relied on, the amount goes past the buffer."""

    state: ClientState
    background: Background
    inline: Inline
    waiting: Waiting
    recording: Recording | None

    def request_flush_or_count(self, name: Name, amount: int) -> Counted:
        """Schedule a flush, or count here: nothing empties the buffer, it is full, or each call is recorded by itself.

        Raises UsageError, BufferFull, NotRecorded, Overflow; then it is not counted.
        """
        core = self.state.core
        if self.state.refusing:
            raise closed(name)
        flushes = self.background.ask()
        if core.settings.journal_always:
            self._record(name, amount, flushes)
            return Counted.HERE
        if core.writer.full and self._count_if_full(name, amount, core.count):
            return Counted.HERE
        if not flushes:  # a buffer that is not emptied would grow, and never be found empty again
            with self.state.lock:
                core.count(name, amount)
                core.writer.absorb()
            self.inline.flush_if_due()
            return Counted.HERE
        core.buffer.flush_requested.value = True
        return Counted.BY_CALLER

    def _record(self, name: Name, amount: int, flushes: bool) -> None:
        """The amount is in the journal, and in the totals."""
        assert self.recording is not None
        core = self.state.core
        count = self.recording.count
        if amount and not (core.writer.full and self._count_if_full(name, amount, count)):
            count(name, amount)
        if not flushes:
            with self.state.lock:
                core.writer.absorb()
            self.inline.flush_if_due()

    def _count_if_full(self, name: Name, amount: int, count: Callable[[Name, int], None]) -> bool:
        """The amount is counted (True), or there is room again. Raises BufferFull where the option says so."""
        core = self.state.core
        while True:
            if self.state.refusing:
                raise closed(name)
            with self.state.lock:
                if core.fits_when_full(name, amount):
                    count(name, amount)
                    return True
                if not core.writer.full:
                    return False
            if not core.settings.block_when_full:
                raise buffer_full(core, name)
            self.waiting.for_room(lambda: not core.writer.full)
