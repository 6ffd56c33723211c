"""What callers of the asyncio face ask for, and the end of a client: by close, at exit, in the child of a fork."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.pacing import (
    FLUSH_TIMEOUT,
    REST,
    TURN,
    TURNS,
    buffer_full,
    closed,
    not_delivered,
    settle_close,
)
from redis_counters.drivers.process import atexit_hooks, fork_hooks
from redis_counters.drivers.process.finalizer import without_traceback
from redis_counters.drivers.tasks.asking import flush
from redis_counters.drivers.tasks.reading import Reading
from redis_counters.drivers.tasks.rounds import running_loop, set_within
from redis_counters.drivers.transport import AwaitedTransport
from redis_counters.errors import CounterError, Refused, UsageError, quoted
from redis_counters.protocol.core import Core
from redis_counters.protocol.stats import Stats
from redis_counters.protocol.wire.shard_counts import Auto
from redis_counters.protocol.wire.values import Name
from redis_counters.protocol.write.expiries import Expiry, Moment

if TYPE_CHECKING:
    from redis_counters.drivers.tasks.keyed import KeyedTasks

STATS_TIMEOUT = 10.0  # seconds that stats() in another thread waits for the loop


class TaskRunner(Reading):
    """Drives a core for tasks of one event loop."""

    def __init__(self, core: Core, transport: AwaitedTransport) -> None:
        super().__init__(core, transport)
        self.ending: asyncio.Task[None] | None = None  # closes it, if nothing else has
        self.stopping: asyncio.Future[None] | None = None  # ends the client
        fork_hooks.begin_anew(self)
        atexit_hooks.close_at_exit(self, self._close_at_exit)

    def after_fork_in_child(self) -> None:
        """The child owns nothing: what waits belongs to the parent, whose loop does not run here."""
        self.loop, self.in_child = None, None
        self._reset()
        self.transport.drop_connections(of_parent=True)
        self.begin_core_in_child()
        if self.recording is not None:
            self.recording.begin()

    def drop(self) -> bool:
        """Nothing can count any more: what is pending is sent, then the client ends. False if there is nothing to end.

        The garbage collector calls this: see `finalizer`. Where no loop runs (any more), the hook of exit sends the
        rest.
        """
        if self.over or not fork_hooks.begun():  # in a child it has nothing, and nothing can be waited for here
            return False
        loop = self.loop
        alive = loop is not None and not loop.is_closed()
        unrecorded = self.recording is None or self.recording.journal.unused
        if not alive and self.core.writer.clean and unrecorded:
            self.refusing = self.stopped = self.over = True
            self._forget()
            return False
        self.dropped = True
        if loop is not None and alive:
            with suppress(RuntimeError):  # it is being closed
                loop.call_soon_threadsafe(self._told)
        return True

    async def _wait_and_flush(self) -> None:
        await super()._wait_and_flush()
        if self.dropped and not self.refusing and self.core.writer.clean and self.core.writer.durable:
            self.dropped = False
            self.ending = asyncio.get_running_loop().create_task(self._close_dropped())

    async def _close_dropped(self) -> None:
        with suppress(CounterError):
            await self.close(atexit_hooks.LIMIT)
        await self.end_client()

    async def end_client(self) -> None:
        """End the client, if it is ours. In a task that no cancellation reaches: redis-py would not go on."""
        if self.stop_client is None:
            return
        if self.stopping is None or self.stopping.done():
            self.stopping = asyncio.ensure_future(self._end_client(self.stop_client))
        await asyncio.shield(self.stopping)

    async def _end_client(self, stop: Callable[[], Awaitable[None]]) -> None:
        await stop()
        self.stop_client = None

    def _forget(self) -> None:
        """Forget the hooks of forks and of the end of the process."""
        fork_hooks.forget(self)
        atexit_hooks.forget(self)

    def wake(self, name: Name, amount: int) -> bool:
        """Ask for a flush within the interval, at the first increment since the buffer was emptied in this process.

        False: the caller appends the amount to the buffer. True: it is counted already, since nothing empties the
        buffer, or it is full, or each call is recorded by itself. Called seldom: the usual increment costs nothing.
        Raises UsageError, BufferFull, NotRecorded.
        """
        fork_hooks.notice()
        if self.refusing:
            raise closed(name)
        if self.always:
            self._count_recorded(name, amount)
            return True
        writer = self.core.writer
        loop = self.loop
        if self.thread != threading.get_ident() and not (self._free() and running_loop() is not None):
            if writer.full:
                raise buffer_full(self.core, name)
            if loop is not None and not loop.is_closed():
                loop.call_soon_threadsafe(self._told)
            self.core.buffer.asked.value = True
            return False
        if (self.task is None or self.task.done() or self._free()) and not self._start():
            # Taken in here and now: a buffer that is not emptied would grow, and never be found empty again.
            self.core.count(name, amount)
            return True
        self.awake.set()
        if writer.full:
            if self.core.count_if_pending(name, amount):
                return True
            if writer.full:
                raise buffer_full(self.core, name)
        self.core.buffer.asked.value = True
        return False

    def _count_recorded(self, name: Name, amount: int) -> None:
        """The amount is in the journal, and in the totals. Raises NotRecorded, Overflow, BufferFull: then it is not."""
        assert self.recording is not None
        if self._elsewhere():
            raise UsageError(
                f"counter {quoted(name)} not counted: journal_mode='always' needs the thread of the event loop"
            )
        if self.task is None or self.task.done() or self._free():
            self._start()
        self.awake.set()
        if amount:
            if self.core.writer.full and not self.core.squeezes(name, amount):
                raise buffer_full(self.core, name)
            self.recording.count(name, amount)

    def _told(self) -> None:
        """Another thread has counted."""
        if self.task is None or self.task.done():
            self._start()
        self.awake.set()

    async def flush(self, timeout: float | None, only: bytes | None = None) -> None:
        await flush(self, FLUSH_TIMEOUT if timeout is None else timeout, only)

    async def close(self, timeout: float) -> None:
        fork_hooks.notice()
        if self.over:
            return
        self.begin_here()
        async with self.closing:  # a second call waits for the first
            if not self.over:
                await self._close(timeout)

    async def _close(self, timeout: float) -> None:
        """Interrupted anywhere, it goes on where it was when it is called again."""
        writer = self.core.writer
        if not self.stopped:
            self.refusing = True
            self.core.begin_close()
            try:
                deadline = monotonic() + timeout
                await self.work_until(lambda: writer.closed and self.core.orphans_over, deadline)
                while monotonic() < deadline and await self._somebody_was_late():
                    await self.work_until(lambda: writer.closed, deadline)
            except Refused as error:
                self.close_refusal = error
            except BaseException:
                self.refusing = writer.closing = False
                raise
            self.stopped = True
        writer.closing = False
        await self._end_task()
        await self.transport.end()
        self._forget()
        if self.in_child is not None:
            self.in_child()
        if self.recording is not None:
            await self.recording.close()
        self.over = True
        self.core.reads.cache.clear()  # what is at hand would be read without asking whether it is closed
        try:
            settle_close(self.core, timeout, self.close_refusal)
        finally:
            self.publish()

    async def _somebody_was_late(self) -> bool:
        """Other threads have had a turn; True if one has counted that had looked before close() began to refuse."""
        for _ in range(TURNS if threading.active_count() > 1 else 0):
            await asyncio.sleep(TURN)
            if not self.core.writer.clean:
                return True
        return False

    async def _end_task(self) -> None:
        self.awake.set()
        self.urgent.ring()
        task = self.task
        if task is not None and not task.done():
            _done, waiting = await asyncio.wait({task}, timeout=REST)
            for late in waiting:
                late.cancel()
                await asyncio.wait({late}, timeout=REST)
        self.task = None

    async def work_until(self, done: Callable[[], bool], deadline: float) -> None:
        if not done() and (self.task is None or self.task.done()):
            self._start()
        rounds = self.rounds
        while not done() and not self.stopped:
            if self.refusal is not None and self.rounds > rounds + 1:
                raise without_traceback(self.refusal)
            self.urgent.ring()
            self.awake.set()
            rest = deadline - monotonic()
            if rest <= 0:
                return
            await set_within(self.progress, min(rest, 0.1))
        self.urgent.silence()  # or what is counted next would be flushed at once; another that waits sets it again

    def add(self, name: Name, amount: int) -> None:
        if not self.core.add(name, amount):
            if self._elsewhere():
                raise UsageError(
                    f"counter {quoted(name)} not counted: amounts beyond 2**31 need the thread of the event loop"
                )
            self.core.add_large(name, amount)

    def _elsewhere(self) -> bool:
        """True in a thread that the loop does not run in, while it runs."""
        return self.thread != threading.get_ident() and self.loop is not None and self.loop.is_running()

    def declare(self, name: bytes, shards: int | Auto | None, expire_at: Moment | None) -> Expiry | None:
        fork_hooks.notice()
        return self.core.declare(name, shards, expire_at)

    def keyed_calls(self) -> KeyedTasks:
        """Return what sends keyed calls; imported with the first of them."""
        from redis_counters.drivers.tasks.keyed import keyed_of

        return keyed_of(self)

    def stats(self) -> Stats:
        fork_hooks.notice()
        if self._free() and not self.over and running_loop() is not None:
            self.begin_here()
        loop = self.loop
        if loop is None or not self._elsewhere():
            return self.core.stats()
        return asyncio.run_coroutine_threadsafe(self._stats(), loop).result(STATS_TIMEOUT)

    async def _stats(self) -> Stats:
        return self.core.stats()

    def _close_at_exit(self, seconds: float) -> None:
        """Close in the client's loop, if that runs in some thread, else in one of its own; what is lost is logged."""
        fork_hooks.notice()
        self.core.writer.accumulator.drain()
        if self.core.writer.clean:
            return
        loop = self.loop
        try:
            if loop is not None and loop.is_running():
                asyncio.run_coroutine_threadsafe(self.close(seconds), loop).result(2 * seconds)
            elif loop is not None and not loop.is_closed():
                loop.run_until_complete(self.close(seconds))
            else:
                _run_without_threads(self._close_all(seconds))
        except CounterError:
            pass  # close() logged the loss
        except Exception as error:
            not_delivered(self.core, f"and the client was not closed ({type(error).__name__}: {error})")
            self.publish()

    async def _close_all(self, seconds: float) -> None:
        try:
            await self.close(seconds)
        finally:
            await self.transport.disconnect()


def _run_without_threads(work: Coroutine[Any, Any, None]) -> None:
    """As asyncio.run; at exit no thread can be started, and hosts are looked up in one."""
    loop = asyncio.SelectorEventLoop()

    async def look_up(host: Any, port: Any, **options: Any) -> Any:
        return socket.getaddrinfo(host, port, **options)

    loop.getaddrinfo = look_up  # type: ignore[method-assign]
    try:
        loop.run_until_complete(work)
    finally:
        loop.close()
