"""The runner of the asyncio face: the parts of a client, and which of them does what a caller asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Generator
from contextlib import nullcontext
from typing import TYPE_CHECKING, TypeVar

from redis_counters.drivers.client_state import ClientState
from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.pacing import FLUSH_TIMEOUT_S
from redis_counters.drivers.process import fork_hooks
from redis_counters.drivers.tasks.background import Background
from redis_counters.drivers.tasks.counting import Counting
from redis_counters.drivers.tasks.delivery import Delivery
from redis_counters.drivers.tasks.ending import Ending
from redis_counters.drivers.tasks.flusher import Flusher
from redis_counters.drivers.tasks.home import Home
from redis_counters.drivers.tasks.reading import Reading
from redis_counters.drivers.tasks.recording import Recording
from redis_counters.drivers.tasks.rounds import Rounds
from redis_counters.drivers.tasks.waiting import Waiting
from redis_counters.drivers.transport import AwaitedTransport
from redis_counters.protocol.core import Core
from redis_counters.protocol.stats import Stats
from redis_counters.protocol.wire.commands import Command
from redis_counters.protocol.wire.shard_counts import Auto
from redis_counters.protocol.wire.values import CounterValue, Name
from redis_counters.protocol.write.buffer import Counted
from redis_counters.protocol.write.expiries import Expiry, Moment

if TYPE_CHECKING:
    from redis_counters.drivers.tasks.keyed import KeyedTasks

T = TypeVar("T")

STATS_TIMEOUT_S = 10.0  # that stats() in another thread waits for the loop


class TaskRunner:
    """Drives a core for tasks of one event loop."""

    def __init__(self, core: Core, transport: AwaitedTransport) -> None:
        self.core = core
        self.transport = transport
        self.state = ClientState(core)
        self.state.lock = nullcontext()  # tasks give way only where they await
        self.recording = None if core.settings.journal is None else Recording(self.state)
        self.home = Home()
        self.counting = Counting(self)
        self.make_parts()
        self.ending = Ending(self)

    def make_parts(self) -> None:
        """Make all that belongs to an event loop: at the start, in a child, and where another loop runs."""
        state, recording = self.state, self.recording
        self.closing = asyncio.Lock()  # one close() at a time
        background = self.background = Background(state, recording, self._turn)
        rounds = self.rounds = Rounds(state, self.transport, background, recording)
        flusher = self.flusher = Flusher(state, rounds, background, recording)
        waiting = self.waiting = Waiting(state, background, rounds, flusher)
        self.delivery = Delivery(state, waiting, background, recording)
        self.reading = Reading(state, self.transport)
        self.keyed: KeyedTasks | None = None  # made when it is needed

    def begin_here(self) -> None:
        """Be of the loop that runs. To be called before any part is touched. Raises UsageError: see `Home.enter`."""
        fork_hooks.notice()
        loop = asyncio.get_running_loop()
        if loop is self.home.loop:
            return
        if self.home.enter(loop) is not None:
            self.rounds.abandon()
            self.make_parts()
            if self.recording is not None:
                self.recording.abandon()
            self.core.reads.cache.fetching.clear()
            self.transport.drop_connections(of_parent=False)
        self.ending.close_in_child()
        if not self.state.over and not self.core.writer.clean:  # counted before a loop ran, or by another thread
            self.background.start()

    def after_fork_in_child(self) -> None:
        """The child owns nothing: what waits belongs to the parent, whose loop does not run here."""
        self.home.loop = self.ending.in_child = None
        self.background.task = None
        self.make_parts()
        self.transport.drop_connections(of_parent=True)
        self.state.begin_in_child()
        if self.recording is not None:
            self.recording.begin_in_child()

    # -- the background

    def start(self) -> bool:
        """The task runs, and looks. False outside of its event loop: what is done later inside of one starts it."""
        if not self.background.runs or self.home.free():
            if self.state.stopped or not self.home.may_enter():
                return False
            self.begin_here()
            self.background.start()
        self.background.asked.set()
        return True

    async def _turn(self) -> None:
        await self.flusher.turn()
        if self.state.dropped:
            self.ending.close_if_all_sent()

    # -- what callers ask for

    def request_flush_or_count(self, name: Name, amount: int) -> Counted:
        """The first increment since the buffer was emptied in this process; the others cost nothing.

        Raises UsageError, BufferFull, NotRecorded, Overflow; then it is not counted.
        """
        fork_hooks.notice()
        return self.counting.request_flush_or_count(name, amount)

    def add(self, name: Name, amount: int) -> None:
        self.counting.add(name, amount)

    def declare(self, name: bytes, shards: int | Auto | None, expire_at: Moment | None) -> Expiry | None:
        """The counter has at least that many shards, and expires then: keep what is returned. Raises UsageError."""
        fork_hooks.notice()
        return self.core.declare(name, shards, expire_at)

    async def ask(self, asks: Generator[list[Command], list[object], T], deadline: Deadline | None = None) -> T:
        self.begin_here()
        return await self.reading.ask(asks, deadline or Deadline())

    async def read(self, names: Collection[bytes], max_age: float | None) -> dict[bytes, CounterValue]:
        self.begin_here()
        return await self.reading.read(names, max_age)

    async def flush(self, timeout: float | None, only: bytes | None = None) -> None:
        """Raises UsageError, Unavailable, Refused."""
        self.begin_here()
        await self.delivery.flush(FLUSH_TIMEOUT_S if timeout is None else timeout, only)

    async def close(self, timeout: float) -> None:
        """Raises Unavailable, Refused."""
        fork_hooks.notice()
        if self.state.over:
            return
        self.begin_here()
        async with self.closing:  # a second call waits for the first
            if not self.state.over:
                await self.delivery.close(timeout, self.ending.let_go)

    def keyed_calls(self) -> KeyedTasks:
        """Return what sends keyed calls; imported with the first of them."""
        self.begin_here()
        if self.keyed is None:
            from redis_counters.drivers.tasks.keyed import KeyedTasks

            self.keyed = KeyedTasks(self)
        return self.keyed

    def stats(self) -> Stats:
        fork_hooks.notice()
        home = self.home
        if home.free() and home.may_enter() and not self.state.over:
            self.begin_here()
        if home.loop is None or not home.elsewhere():
            return self.core.stats()
        return asyncio.run_coroutine_threadsafe(self._stats(), home.loop).result(STATS_TIMEOUT_S)

    async def _stats(self) -> Stats:
        return self.core.stats()
