"""What ends a client besides close(), in the asyncio face: exit, of a child too, and that nothing refers to it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redis_counters.drivers.pacing import not_delivered
from redis_counters.drivers.process import atexit_hooks, fork_hooks
from redis_counters.errors import CounterError

if TYPE_CHECKING:
    from redis_counters.drivers.tasks.runner import TaskRunner


class Ending:
    """The hooks of one client."""

    def __init__(self, runner: TaskRunner) -> None:
        self.runner = runner
        self.stop_client: Callable[[], Awaitable[None]] | None = None  # if the client is not the caller's
        self.in_child: Callable[[], object] | None = None  # calls off what a child of multiprocessing does at its end
        self._closing: asyncio.Task[None] | None = None
        self._stopping: asyncio.Future[None] | None = None
        fork_hooks.begin_anew(runner)
        atexit_hooks.close_at_exit(runner, self._close_at_exit)

    async def let_go(self) -> None:
        """The hooks of forks and of the end of the process are gone, and what was made besides the client."""
        await self.runner.transport.end()
        self._forget()
        if self.in_child is not None:
            self.in_child()

    def _forget(self) -> None:
        fork_hooks.forget(self.runner)
        atexit_hooks.forget(self.runner)

    def close_in_child(self) -> None:
        """A child of multiprocessing closes the client at its end.

        Not from the fork on: multiprocessing forgets then what was registered with it.
        """
        if self.in_child is None:
            self.in_child = atexit_hooks.close_in_child(self._close_at_exit)

    def drop(self) -> bool:
        """Nothing can count any more: what is pending is sent, then the client ends. False if there is nothing to end.

        The garbage collector calls this: see `finalizer`. Where no loop runs (any more), the hook of exit sends the
        rest.
        """
        runner, state = self.runner, self.runner.state
        if state.over or not fork_hooks.begun():  # in a child it has nothing, and nothing can be waited for here
            return False
        unrecorded = runner.recording is None or runner.recording.journal.unused
        if runner.home.free() and state.core.writer.clean and unrecorded:
            state.refusing = state.stopped = state.over = True
            self._forget()
            return False
        state.dropped = True
        with suppress(RuntimeError):  # the loop is being closed
            runner.counting.wake_loop()
        return True

    def close_if_all_sent(self) -> None:
        """The client was dropped: as soon as all is sent it is closed, in a task."""
        state, writer = self.runner.state, self.runner.state.core.writer
        if not state.refusing and writer.clean and writer.durable:
            state.dropped = False
            self._closing = asyncio.get_running_loop().create_task(self._close_dropped())

    async def _close_dropped(self) -> None:
        with suppress(CounterError):
            await self.runner.close(atexit_hooks.LIMIT_S)
        await self.end_client()

    async def end_client(self) -> None:
        """End the client, if it is ours. In a task that no cancellation reaches: redis-py would not go on."""
        if self.stop_client is None:
            return
        if self._stopping is None or self._stopping.done():
            self._stopping = asyncio.ensure_future(self._end_client(self.stop_client))
        await asyncio.shield(self._stopping)

    async def _end_client(self, stop: Callable[[], Awaitable[None]]) -> None:
        await stop()
        self.stop_client = None

    def _close_at_exit(self, seconds: float) -> None:
        """Close in the client's loop, if that runs in some thread, else in one of its own; what is lost is logged."""
        fork_hooks.notice()
        runner, core, loop = self.runner, self.runner.core, self.runner.home.loop
        core.writer.accumulator.drain()
        if core.writer.clean:
            return
        try:
            if loop is not None and loop.is_running():
                asyncio.run_coroutine_threadsafe(runner.close(seconds), loop).result(2 * seconds)
            elif loop is not None and not loop.is_closed():
                loop.run_until_complete(runner.close(seconds))
            else:
                _run_without_threads(self._close_all(seconds))
        except CounterError:
            pass  # close() logged the loss
        except Exception as error:
            not_delivered(core, f"and the client was not closed ({type(error).__name__}: {error})")
            runner.state.publish()

    async def _close_all(self, seconds: float) -> None:
        try:
            await self.runner.close(seconds)
        finally:
            await self.runner.transport.disconnect()


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
