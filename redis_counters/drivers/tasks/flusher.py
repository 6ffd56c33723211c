"""The background task of the asyncio driver: flushes at its pace, keeps house between rounds, never ends."""

from __future__ import annotations

import asyncio

from redis_counters.drivers.pacing import IDLE_POLL, MOST_PAUSE, REST, retry_options
from redis_counters.drivers.tasks.pace import keep_house, pause, rest_or_keep_house, round_unless_stopped
from redis_counters.drivers.tasks.rounds import Rounds, running_loop, set_within
from redis_counters.drivers.transport import AwaitedTransport
from redis_counters.events import EventKind, log
from redis_counters.protocol.core import Core

RESTART = 0.5  # seconds until a task that was cancelled is started again: the loop may be about to end


class Flusher(Rounds):
    """What the task does."""

    def __init__(self, core: Core, transport: AwaitedTransport) -> None:
        from tenacity import AsyncRetrying

        super().__init__(core, transport)
        self.retrying = AsyncRetrying(sleep=self._pause, **retry_options(core))

    def _start(self) -> bool:
        """The task runs. False outside of its event loop: a later increment inside of one, or flush(), starts it."""
        loop = running_loop()
        if loop is None or self.stopped or not (self._free() or loop is self.loop):
            return False
        self.begin_here()
        if self.task is not None and not self.task.done():  # that has started it
            return True
        self.task = loop.create_task(self._run(), name="redis-counters")
        self.task.add_done_callback(self._ended)
        return True

    def _ended(self, task: asyncio.Task[None]) -> None:
        """The task was cancelled: the next increment finds the buffer empty, and starts another.

        If none comes, the loop does, unless it is at its end.
        """
        if task is not self.task or self.stopped:
            return
        self.core.writer.accumulator.drain()
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_later(RESTART, self._restart, task)

    def _restart(self, ended: asyncio.Task[None]) -> None:
        if ended is self.task and not self.stopped and self._start():
            self.core.report(EventKind.FLUSHER_RESTARTED, "the task that flushes was cancelled, another one is started")
            self.publish()

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
                await asyncio.wait({work}, timeout=REST)
        work.result()

    async def _work(self, leaving: list[bool]) -> None:
        while not self.stopped and not leaving:
            try:
                await self._wait_and_flush()
                await keep_house(self)
            except Exception:  # a fault of ours, or of a client: what waits must not wait for ever because of it
                if not self.stopped:
                    log.exception("flushing failed unexpectedly, going on")
                    await self._pause(MOST_PAUSE)

    async def _wait_and_flush(self) -> None:
        if self.core.writer.clean:
            await set_within(self.awake, min(IDLE_POLL, self.core.housekeeping.wait()))
        self.awake.clear()
        if self._nothing_to_do():
            return
        if not await rest_or_keep_house(self, self.core.settings.flush_interval) and self._nothing_to_do():
            return
        self.urgent.silence()
        await self.retrying(round_unless_stopped, self)

    def _nothing_to_do(self) -> bool:
        return not self.urgent.rings() and self.core.nothing_to_do()

    async def _pause(self, seconds: float) -> None:
        await pause(self, seconds)
