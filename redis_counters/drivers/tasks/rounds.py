"""One round at a time on a connection of its own: flushing, or a step of the janitor."""

from __future__ import annotations

import asyncio
import threading
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING

from redis_counters.drivers.client_state import ClientState
from redis_counters.drivers.pacing import open_recording, round_error
from redis_counters.drivers.process import atexit_hooks, fork_hooks
from redis_counters.drivers.tasks.steps import work_through
from redis_counters.drivers.transport import AwaitedLane, AwaitedTransport
from redis_counters.errors import Refused, UsageError
from redis_counters.protocol.core import Core
from redis_counters.protocol.flush.round import SendStep, Steps
from redis_counters.protocol.wire.answers import all_answered
from redis_counters.protocol.wire.commands import Command

if TYPE_CHECKING:
    from redis_counters.drivers.tasks.keyed import KeyedTasks
    from redis_counters.drivers.tasks.recording import Recording


class Rounds(ClientState):
    """The state that tasks share, and whatever uses a connection for flushing."""

    def __init__(self, core: Core, transport: AwaitedTransport) -> None:
        super().__init__(core)
        self.transport = transport
        self.stop_client: Callable[[], Awaitable[None]] | None = None  # if the client is not the caller's
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread = threading.get_ident()  # whose increments are taken in at once: the loop's, or the maker's
        self.in_child: Callable[[], object] | None = None
        self._reset()
        self.recording = open_recording(core, self._make_recording)

    def _make_recording(self) -> Recording:
        from redis_counters.drivers.tasks.recording import Recording  # with sqlite3, which only journals need

        return Recording(self.core)

    def _reset(self) -> None:
        self.lock = nullcontext()  # of the core: tasks give way only where they await
        self.fetched = asyncio.Event()  # set and replaced whenever a fetch is over
        self.awake = asyncio.Event()  # there is something in the buffer
        self.urgent = Signal()  # a caller waits for a flush
        self.progress = asyncio.Event()  # set and replaced whenever a round has made progress, or has failed
        self.closing = asyncio.Lock()  # one close() at a time
        self.rounding = asyncio.Lock()  # one round at a time,
        self.steps: Steps | None = None  # and this is it
        self.keyed: KeyedTasks | None = None  # made when it is needed
        self.task: asyncio.Task[None] | None = None
        self.rounds = 0
        self.refusal: Refused | None = None

    def begin_here(self) -> None:
        """The client belongs to the running loop. Raises UsageError if it belongs to another one that may still run."""
        fork_hooks.notice()
        loop = asyncio.get_running_loop()
        if loop is self.loop:
            return
        if self.loop is not None and not self.loop.is_closed():
            raise UsageError(
                "this client belongs to another event loop, which is not closed; make one Counters per event loop"
            )
        before, self.loop, self.thread = self.loop, loop, threading.get_ident()
        if before is not None:
            if self.steps is not None:  # the loop ended in the middle of a round
                self.steps.close()
            self._reset()
            if self.recording is not None:
                self.recording.in_another_loop()
            self.core.reads.fetching.clear()
            self.transport.drop_connections(of_parent=False)
        if self.in_child is None:
            self.in_child = atexit_hooks.close_in_child(self._close_at_exit)
        if not self.over and not self.core.writer.clean:  # counted before a loop ran, or by another thread
            self._start()

    @abstractmethod
    def _start(self) -> bool:
        """The background runs; the flusher knows how."""

    @abstractmethod
    def _close_at_exit(self, seconds: float) -> None:
        """The client is closed; the runner knows how."""

    def _free(self) -> bool:
        """True if the client belongs to no loop that may still run."""
        return self.loop is None or self.loop.is_closed()

    async def round(self) -> None:
        """Everything that could be sent was sent, and answered. Raises Unavailable, Refused; nothing is lost by it."""
        self.refusal = None
        try:
            async with self.rounding:
                await self._drive_round()
        except Exception as error:
            ours = self.round_failed(error)
            if ours is error:
                raise
            raise ours from error
        finally:
            self.rounds += 1
            self.progressed()
            self.publish()

    async def _drive_round(self) -> None:
        fork_hooks.notice()  # the loop of a parent may go on in a child that C has forked
        if self.core.writer.router.keys is None:  # the namespace may take long to answer
            self.core.writer.absorb()
        recording = self.recording
        if recording is not None:
            await recording.seek()
            self.core.writer.absorb()
            await recording.own()
        steps = self.steps = self.core.round()
        ticker = asyncio.get_running_loop().create_task(self._absorb_meanwhile())
        try:
            async with self.transport.lane() as lane:
                await work_through(self, steps, lane)
        finally:
            ticker.cancel()
            steps.close()
            self.steps = None
        if recording is not None:
            await recording.tidy()
        error = round_error(self.core)
        if error is not None:
            raise error
        self.core.succeeded()
        self.breaker.succeeded()

    async def exchange(self, commands: list[Command]) -> list[object]:
        """Return the answers to commands of the janitor. Raises where one has none."""
        ticker = asyncio.get_running_loop().create_task(self._absorb_meanwhile())
        try:
            async with self.rounding, self.transport.lane() as lane:
                return all_answered(await lane.exchange(commands))
        finally:
            ticker.cancel()

    async def send(self, lane: AwaitedLane, step: SendStep) -> None:
        await lane.send(step.command, step.text)

    def beat(self) -> None:
        """Threads are watched; a task that ends is known at once."""

    async def _absorb_meanwhile(self) -> None:
        while True:
            await asyncio.sleep(self.core.settings.flush_interval)
            if self.core.overdue or self.recording is not None:
                self.core.writer.absorb()
                if self.recording is not None:
                    await self.recording.own()

    def progressed(self) -> None:
        self.progress.set()
        self.progress = asyncio.Event()


class Signal:
    """As `AutoResetEvent`, for tasks; but `wait` leaves it ringing: call `silence` afterwards."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        self._event.set()

    def rings(self) -> bool:
        return self._event.is_set()

    def silence(self) -> None:
        self._event.clear()

    async def wait(self, seconds: float) -> bool:
        """Return whether it rings within that time; it goes on ringing."""
        return await set_within(self._event, seconds)


def running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def set_within(event: asyncio.Event, seconds: float) -> bool:
    """Return whether the event was set within that time.

    Not by asyncio.wait_for: up to Python 3.11 it loses a cancellation that comes together with the event.
    """
    if event.is_set():
        return True
    waiter = asyncio.ensure_future(event.wait())
    try:
        done, _ = await asyncio.wait({waiter}, timeout=seconds)
    finally:
        waiter.cancel()
    return bool(done)
