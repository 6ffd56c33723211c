"""What callers of the blocking face ask for, and the end of a client: by close, at exit, in the child of a fork."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.pacing import (
    FLUSH_TIMEOUT,
    MOST_PAUSE,
    REST,
    TURN,
    TURNS,
    buffer_full,
    closed,
    settle_close,
)
from redis_counters.drivers.process import atexit_hooks, fork_hooks
from redis_counters.drivers.process.finalizer import without_traceback
from redis_counters.drivers.threads.asking import flush
from redis_counters.drivers.threads.background import HELP, AutoResetEvent
from redis_counters.drivers.threads.patched import check_in_time, remake
from redis_counters.drivers.threads.reading import Reading
from redis_counters.drivers.transport import Transport
from redis_counters.errors import CounterError, Refused
from redis_counters.events import log
from redis_counters.protocol.core import Core
from redis_counters.protocol.stats import Stats
from redis_counters.protocol.wire.shard_counts import Auto
from redis_counters.protocol.wire.values import Name
from redis_counters.protocol.write.expiries import Expiry, Moment

if TYPE_CHECKING:
    from redis_counters.drivers.threads.keyed import KeyedThreads

LEAST_ROUND = 0.5  # seconds that a round of a caller may take at least, however little time there is
OURS = "redis-counters"  # how the names of this library's threads begin


class ThreadRunner(Reading):
    """Drives a core for threads."""

    def __init__(self, core: Core, transport: Transport) -> None:
        check_in_time()
        super().__init__(core, transport)
        fork_hooks.begin_anew(self)
        atexit.register(self._deliver)
        atexit_hooks.close_at_exit(self, self._close_at_exit)

    def after_fork_in_child(self) -> None:
        """The child owns nothing: what waits belongs to the parent, and its locks may be held for ever."""
        self._reset()
        self.transport.begin_in_child()
        self.begin_core_in_child()
        if self.recording is not None:
            self.recording.begin(self.lock)

    def _remake(self) -> None:
        remake(self)

    def drop(self) -> bool:
        """Nothing can count any more: what is pending is sent, then the client ends. False if there is nothing to end.

        The garbage collector calls this: see `finalizer`.
        """
        if self.over or not fork_hooks.begun():  # in a child it has nothing, and nothing can be waited for here
            return False
        unrecorded = self.recording is None or self.recording.journal.unused
        if not self.background.begun and self.core.writer.clean and unrecorded:
            self.refusing = self.stopped = self.over = True
            self._forget()
            if self.stop_client is not None:  # else its sockets would be found open by the garbage collector
                with suppress(Exception):
                    self.transport.disconnect_idle()
            return False
        self.dropped = True
        self.background.asked.ring()
        return True

    def _work(self) -> None:
        super()._work()
        if self.dropped and not self.refusing:
            with self.lock:
                done = self.core.writer.clean and self.core.writer.durable
            if done:
                self.dropped = False
                with suppress(RuntimeError):  # at the end of the interpreter there are no threads; its hook closes this
                    threading.Thread(target=self._close_dropped, name="redis-counters-closing", daemon=True).start()

    def _forget(self) -> None:
        """Forget the hooks of forks and of the end of the process."""
        fork_hooks.forget(self)
        atexit.unregister(self._deliver)
        atexit_hooks.forget(self)

    def _close_dropped(self) -> None:
        with suppress(CounterError):
            self.close(atexit_hooks.LIMIT)
        self.end_client()

    def end_client(self) -> None:
        """End the client, if it is ours."""
        stop, self.stop_client = self.stop_client, None
        if stop is not None:
            stop()

    def _deliver(self) -> None:
        """All that was counted is in Redis and folded, as by close(); but others may go on counting."""
        self.begin_here()
        writer = self.core.writer
        with self.lock:
            if self.refusing:
                return
            goal = self.core.begin_flush()
            self.core.begin_close()
            accepted = writer.accumulator.accepted
        try:
            self.work_until(
                lambda: writer.closed or ((goal is None or goal.reached()) and writer.accumulator.accepted > accepted),
                monotonic() + atexit_hooks.rest() / 2,  # the other half is for closing, when nothing counts any more
            )
        except CounterError:
            pass  # close() raises it
        finally:
            with self.lock:
                writer.closing = self.refusing

    def _close_at_exit(self, seconds: float) -> None:
        try:
            self.close(seconds)
        except CounterError as error:
            log.error("at exit: %s", error)

    def wake(self, name: Name, amount: int) -> bool:
        """Ask for a flush within the interval, at the first increment since the buffer was emptied in this process.

        False: the caller appends the amount to the buffer. True: it is counted already, since nothing empties the
        buffer, or it is full, or each call is recorded by itself. Called seldom: the usual increment costs nothing.
        Raises UsageError, BufferFull, NotRecorded.
        """
        self.begin_here()
        if self.refusing:
            raise closed(name)
        if self.in_child is None:
            self._be_closed_in_child()
        if self.always:
            self._count_recorded(name, amount)
            return True
        if not self.background.ask():
            if self.core.writer.full and self._squeeze(name, amount):
                return True
            # Taken in here and now: a buffer that is not emptied would grow, and never be found empty again.
            with self.lock:
                self.core.count(name, amount)
                self.core.writer.absorb()
            self._flush_inline_if_due()
            return True
        if self.core.writer.full and self._squeeze(name, amount):
            return True
        self.core.buffer.asked.value = True
        return False

    def _count_recorded(self, name: Name, amount: int) -> None:
        """The amount is in the journal, and in the totals. Raises NotRecorded, Overflow, BufferFull: then it is not."""
        assert self.recording is not None
        awake = self.background.ask()
        if amount and not (self.core.writer.full and self._squeeze(name, amount)):
            self.recording.count(name, amount)
        if not awake:
            self._absorb()
            self._flush_inline_if_due()

    def flush(self, timeout: float | None, only: bytes | None = None) -> None:
        flush(self, FLUSH_TIMEOUT if timeout is None else timeout, only)

    def close(self, timeout: float) -> None:
        self.begin_here()
        if self.rounder is threading.current_thread() and self.refusing:
            return  # an observer, called by the flusher that another thread's close() waits for
        with self.closing:  # a second call waits for the first; a handler of signals comes through
            if not self.over:
                self._close(timeout)

    def _close(self, timeout: float) -> None:
        """Interrupted anywhere, it goes on where it was when it is called again."""
        writer = self.core.writer
        if not self.stopped:
            try:
                with self.lock:
                    self.refusing = True  # first: what counts from now on is refused, and what just did is drained
                    self.core.begin_close()
                deadline = monotonic() + timeout
                self.work_until(lambda: writer.closed and self.core.orphans_over, deadline)
                while monotonic() < deadline and self._somebody_was_late():
                    self.work_until(lambda: writer.closed, deadline)
                self.stopped = True
            except Refused as error:
                self.close_refusal = error
                self.stopped = True
            finally:
                if not self.stopped:
                    self.refusing = writer.closing = False
        writer.closing = False
        self.urgent.ring()
        self.ended.ring()
        self.background.end(REST)
        self._forget()
        if self.in_child is not None:
            self.in_child()
        if self.recording is not None:
            self._absorb()
            self.recording.close()
        try:
            with self.lock:
                settle_close(self.core, timeout, self.close_refusal)
        except CounterError:
            self._end()
            raise
        else:
            self._end()
        finally:
            self.publish()

    def _end(self) -> None:
        self.over = True
        self.core.reads.cache.clear()  # what is at hand would be read without asking whether it is closed

    def _somebody_was_late(self) -> bool:
        """Other threads have had a turn; True if one has counted that had looked before close() began to refuse."""
        others = [thread for thread in threading.enumerate() if not thread.name.startswith(OURS)]
        for _ in range(TURNS if len(others) > 1 else 0):
            time.sleep(TURN)
            if not self.core.writer.clean:
                return True
        return False

    def work_until(self, done: Callable[[], bool], deadline: float) -> None:
        """Wait for the thread to get there; without a thread that makes progress, do it here."""
        self._be_closed_in_child()
        with self.lock:
            if done():  # where nothing was counted no thread is started
                return
        background, bell = self.background, AutoResetEvent()
        if not background.start():
            self._work_here(done, deadline)
            return
        rounds, waiter = self.rounds, (done, bell)
        try:
            self.waiters.append(waiter)
            beats, noticed = -1, 0.0
            while True:
                with self.lock:
                    if done() or self.stopped:
                        return
                    if self.refusal is not None and self.rounds > rounds + 1:
                        raise without_traceback(self.refusal)
                now = monotonic()
                if now >= deadline:
                    return
                self.urgent.ring()
                background.ask()
                if beats != background.beats:
                    beats, noticed = background.beats, now
                elif now - noticed > min(HELP, (deadline - noticed) / 2):
                    if not background.replaced() and not background.connecting:
                        break
                    noticed = now
                if background.absent:
                    break
                if self.core.writer.events and not self.rounding.locked():
                    self.publish()
                bell.wait(min(deadline - now, 0.1))
        finally:
            self._no_longer_waits(waiter)
        self._work_here(done, deadline)

    def _work_here(self, done: Callable[[], bool], deadline: float) -> None:
        pause = 0.01
        while True:
            with self.lock:
                if done() or self.stopped:
                    return
            if monotonic() >= deadline:
                return
            try:
                if not self.rounding.locked():
                    self.round(Deadline(max(LEAST_ROUND, deadline - monotonic())))
                    continue
            except CounterError:
                pass
            time.sleep(min(pause, max(0.0, deadline - monotonic())))
            pause = min(pause * 2, MOST_PAUSE)

    def _be_closed_in_child(self) -> None:
        """Not at the fork itself: multiprocessing forgets what was registered with it by then."""
        if self.in_child is None:
            self.in_child = atexit_hooks.close_in_child(self._close_at_exit)

    def _squeeze(self, name: Name, amount: int) -> bool:
        """The amount is counted (True), or may go into the buffer. Raises BufferFull where the option says so."""
        while True:
            if self.refusing:
                raise closed(name)
            with self.lock:
                if self.core.count_if_pending(name, amount):
                    return True
                if not self.core.writer.full:
                    return False
            if not self.core.settings.block_when_full:
                raise buffer_full(self.core, name)
            self._wait_for_room()

    def _wait_for_room(self) -> None:
        if not self.background.ask() and self.background.absent:
            self._work_here(lambda: not self.core.writer.full, monotonic() + 0.1)
            return
        self.urgent.ring()
        waiter = (lambda: not self.core.writer.full, AutoResetEvent())
        try:
            self.waiters.append(waiter)
            waiter[1].wait(0.1)
        finally:
            self._no_longer_waits(waiter)

    def _no_longer_waits(self, waiter: tuple[Callable[[], bool], AutoResetEvent]) -> None:
        if waiter in self.waiters:
            self.waiters.remove(waiter)
        if not self.waiters:
            self.urgent.silence()  # rung after its round, it would have what is counted next flushed at once

    def add(self, name: Name, amount: int) -> None:
        if not self.core.add(name, amount):
            with self.lock:
                self.core.add_large(name, amount)

    def declare(self, name: bytes, shards: int | Auto | None, expire_at: Moment | None) -> Expiry | None:
        self.begin_here()
        with self.lock:
            return self.core.declare(name, shards, expire_at)

    def keyed_calls(self) -> KeyedThreads:
        """Return what sends keyed calls; imported with the first of them."""
        self.begin_here()
        if self.keyed is None:
            from redis_counters.drivers.threads.keyed import keyed_of

            return keyed_of(self)
        return self.keyed

    def stats(self) -> Stats:
        self.begin_here()
        with self.lock:
            return self.core.stats()
