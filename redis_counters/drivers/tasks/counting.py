"""What an increment does that finds no flush requested, or the buffer full, in the asyncio face."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from redis_counters.drivers.pacing import buffer_full, closed
from redis_counters.errors import UsageError, quoted
from redis_counters.protocol.wire.values import Name
from redis_counters.protocol.write.buffer import Counted

if TYPE_CHECKING:
    from redis_counters.drivers.tasks.runner import TaskRunner


class Counting:
    """Has the task flush, from whatever thread; where there can be none, the amount goes past the buffer."""

    def __init__(self, runner: TaskRunner) -> None:
        self.runner = runner
        self.state = runner.state
        self.home = runner.home

    def request_flush_or_count(self, name: Name, amount: int) -> Counted:
        """Schedule a flush, or count here: nothing empties the buffer, it is full, or each call is recorded by itself.

        Raises UsageError, BufferFull, NotRecorded, Overflow; then it is not counted.
        """
        core, home = self.state.core, self.home
        if self.state.refusing:
            raise closed(name)
        if core.settings.journal_always:
            self._record(name, amount)
            return Counted.HERE
        if home.thread != threading.get_ident() and not (home.free() and home.may_enter()):
            if core.writer.full:
                raise buffer_full(core, name)
            self.wake_loop()
        elif not self.runner.start():  # a buffer that is not emptied would grow, and never be found empty again
            core.count(name, amount)
            return Counted.HERE
        elif core.writer.full:
            if core.fits_when_full(name, amount):
                core.count(name, amount)
                return Counted.HERE
            if core.writer.full:
                raise buffer_full(core, name)
        core.buffer.flush_requested.value = True
        return Counted.BY_CALLER

    def wake_loop(self) -> None:
        """From another thread than the loop's: the task runs, and looks."""
        loop = self.home.loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self.runner.start)

    def _record(self, name: Name, amount: int) -> None:
        """The amount is in the journal, and in the totals."""
        core, recording = self.state.core, self.runner.recording
        assert recording is not None
        if self.home.elsewhere():
            raise UsageError(
                f"counter {quoted(name)} not counted: journal_mode='always' needs the thread of the event loop"
            )
        self.runner.start()
        if amount:
            if core.writer.full and not core.fits_when_full(name, amount):
                raise buffer_full(core, name)
            recording.count(name, amount)

    def add(self, name: Name, amount: int) -> None:
        """The signed amount is in the buffer, or in the totals if it is large. Raises Overflow, UsageError."""
        core = self.state.core
        if not core.add(name, amount):
            if self.home.elsewhere():
                raise UsageError(
                    f"counter {quoted(name)} not counted: amounts beyond 2**31 need the thread of the event loop"
                )
            core.add_large(name, amount)
