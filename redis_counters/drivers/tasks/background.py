"""The task of an asyncio client: started when needed, again when it was cancelled, ended with the client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from redis_counters.drivers.client_state import ClientState
from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.pacing import END_TIMEOUT_S
from redis_counters.drivers.process import fork_hooks
from redis_counters.drivers.tasks.recording import Recording
from redis_counters.drivers.transport import AwaitedLane, AwaitedTransport
from redis_counters.events import EventKind

RESTART_S = 0.5  # until a task that was cancelled is started again: the loop may be about to end
SURVIVED: type[BaseException] = Exception  # by the background; a cancellation ends it


class AutoResetEvent:
    """An event that is over once it was noticed, by the one task that waits for it."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    def clear(self) -> None:
        self._event.clear()

    async def wait(self, seconds: float) -> bool:
        """Return whether it was set within that time; if so, it is not set any more.

        Not by asyncio.wait_for: up to Python 3.11 it loses a cancellation that comes together with the event.
        """
        if not self._event.is_set():
            waiter = asyncio.ensure_future(self._event.wait())
            try:
                await asyncio.wait({waiter}, timeout=max(seconds, 0.0))
            finally:
                waiter.cancel()
        was_set = self._event.is_set()
        self._event.clear()
        return was_set


class Background:
    """The task. ``turn`` is what it does, over and over again.

    Threads are watched for heartbeats, and for whether they connect. Here both say nothing: a task that ends is known
    at once.
    """

    def __init__(self, state: ClientState, recording: Recording | None, turn: Callable[[], Awaitable[None]]) -> None:
        self.state = state
        self.recording = recording
        self.asked = AutoResetEvent()  # there is something in the buffer
        self.connecting = False
        self.task: asyncio.Task[None] | None = None
        self._turn = turn
        self._helper: asyncio.Task[None] | None = None  # takes in what is counted during a round

    def heartbeat(self) -> None: ...

    @property
    def runs(self) -> bool:
        return self.task is not None and not self.task.done()

    def start(self) -> None:
        """The task runs, in the loop that runs."""
        if not self.runs and not self.state.stopped:
            self.task = asyncio.get_running_loop().create_task(self._run(), name="redis-counters")
            self.task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """The task was cancelled: the next increment finds the buffer empty, and starts another.

        If none comes, the loop does, unless it is at its end.
        """
        if task is not self.task or self.state.stopped:
            return
        self.state.core.writer.accumulator.drain()
        loop = task.get_loop()
        if not loop.is_closed():
            loop.call_later(RESTART_S, self._restart, task)

    def _restart(self, ended: asyncio.Task[None]) -> None:
        if ended is self.task and not self.state.stopped:
            self.start()
            self.state.core.report(
                EventKind.FLUSHER_RESTARTED, "the task that flushes was cancelled, another one is started"
            )
            self.state.publish()

    async def _run(self) -> None:
        """Work until the client is closed or this is cancelled.

        In a task of its own, because redis-py uses asyncio.wait_for, which up to Python 3.11 may lose a cancellation.
        """
        leaving: list[bool] = []
        work = asyncio.ensure_future(self._work(leaving))
        try:
            await asyncio.wait({work})
        finally:
            leaving.append(True)
            while not work.done():
                work.cancel()
                await asyncio.wait({work}, timeout=END_TIMEOUT_S)
        work.result()

    async def _work(self, leaving: list[bool]) -> None:
        while not self.state.stopped and not leaving:
            await self._turn()

    def begin_round(self) -> None:
        """From now on, until the round ends, what is counted is taken in meanwhile."""
        fork_hooks.notice()  # the loop of a parent may go on in a child that C has forked
        self._helper = asyncio.get_running_loop().create_task(self._absorb())

    def end_round(self) -> None:
        if self._helper is not None:
            self._helper.cancel()

    def lane(
        self, transport: AwaitedTransport, until: Deadline | None = None
    ) -> AbstractAsyncContextManager[AwaitedLane]:
        return transport.lane(until)

    async def _absorb(self) -> None:
        core = self.state.core
        while True:
            await asyncio.sleep(core.settings.flush_interval)
            if core.overdue or self.recording is not None:
                core.writer.absorb()
                if self.recording is not None:
                    await self.recording.own()

    async def end(self, seconds: float) -> None:
        """The task ends; waits that long for it before it is cancelled."""
        self.asked.set()
        task = self.task
        if task is not None and not task.done():
            _done, waiting = await asyncio.wait({task}, timeout=seconds)
            for late in waiting:
                late.cancel()
                await asyncio.wait({late}, timeout=seconds)
        self.task = None
