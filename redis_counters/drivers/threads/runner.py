"""The runner of the blocking face: the parts of a client, and which of them does what a caller asks for."""

from __future__ import annotations

import threading
from collections.abc import Collection, Generator
from typing import TYPE_CHECKING, TypeVar

from redis_counters.drivers.client_state import ClientState
from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.pacing import FLUSH_TIMEOUT_S
from redis_counters.drivers.process import fork_hooks
from redis_counters.drivers.threads.background import Background
from redis_counters.drivers.threads.counting import Counting
from redis_counters.drivers.threads.delivery import Delivery
from redis_counters.drivers.threads.ending import Ending
from redis_counters.drivers.threads.flusher import Flusher
from redis_counters.drivers.threads.inline import Inline
from redis_counters.drivers.threads.patched import check_in_time, remake
from redis_counters.drivers.threads.reading import Reading
from redis_counters.drivers.threads.recording import Recording
from redis_counters.drivers.threads.rounds import Rounds
from redis_counters.drivers.threads.waiting import Waiting
from redis_counters.drivers.transport import Transport
from redis_counters.protocol.core import Core
from redis_counters.protocol.stats import Stats
from redis_counters.protocol.wire.commands import Command
from redis_counters.protocol.wire.shard_counts import Auto
from redis_counters.protocol.wire.values import CounterValue, Name
from redis_counters.protocol.write.buffer import Counted
from redis_counters.protocol.write.expiries import Expiry, Moment

if TYPE_CHECKING:
    from redis_counters.drivers.threads.keyed import KeyedThreads

T = TypeVar("T")


class ThreadRunner:
    """Drives a core for threads."""

    def __init__(self, core: Core, transport: Transport) -> None:
        check_in_time()
        self.core = core
        self.transport = transport
        self.state = ClientState(core)
        self.recording = None if core.settings.journal is None else Recording(self.state)
        self.make_parts()
        self.ending = Ending(self)

    def make_parts(self) -> None:
        """Make all that has locks and threads: at the start, in a child, and where `threading` was patched."""
        state, recording = self.state, self.recording
        self.made_of = threading.Lock
        state.lock = threading.RLock()
        self.closing = threading.RLock()  # one close() at a time
        background = self.background = Background(state, recording, self._turn, self._reclaim)
        rounds = self.rounds = Rounds(state, self.transport, background, recording)
        flusher = self.flusher = Flusher(state, rounds, background, recording)
        inline = self.inline = Inline(state, background, rounds, flusher)
        waiting = self.waiting = Waiting(state, background, rounds, flusher, inline)
        self.counting = Counting(state, background, inline, waiting, recording)
        self.delivery = Delivery(state, waiting, background, recording)
        self.reading = Reading(state, self.transport)
        self.keyed: KeyedThreads | None = None  # made when it is needed

    def begin_here(self) -> None:
        """Be of this process, with what `threading` has now. To be called before any part, or lock, is touched."""
        fork_hooks.notice()
        if threading.Lock is not self.made_of:
            remake(self)

    def after_fork_in_child(self) -> None:
        """The child owns nothing: what waits belongs to the parent, and its locks may be held for ever."""
        self.ending.in_child = None
        self.make_parts()
        self.transport.begin_in_child()
        self.state.begin_in_child()
        if self.recording is not None:
            self.recording.begin_in_child()

    # -- the background

    def _turn(self) -> None:
        self.flusher.turn()
        if self.state.dropped:
            self.ending.close_if_all_sent()

    def _reclaim(self) -> None:
        """The thread that ran a round is gone: what it held is free again."""
        if not self.rounds.abandon():
            with self.state.lock:
                self.core.housekeeping.abandoned()
        if self.recording is not None:
            self.recording.abandon()

    # -- what callers ask for

    def request_flush_or_count(self, name: Name, amount: int) -> Counted:
        """The first increment since the buffer was emptied in this process; the others cost nothing.

        Raises UsageError, BufferFull, NotRecorded, Overflow; then it is not counted.
        """
        self.begin_here()
        self.ending.close_in_child()
        return self.counting.request_flush_or_count(name, amount)

    def add(self, name: Name, amount: int) -> None:
        """The signed amount is in the buffer, or in the totals if it is large. Raises Overflow."""
        if not self.core.add(name, amount):
            with self.state.lock:
                self.core.add_large(name, amount)

    def declare(self, name: bytes, shards: int | Auto | None, expire_at: Moment | None) -> Expiry | None:
        """The counter has at least that many shards, and expires then: keep what is returned. Raises UsageError."""
        self.begin_here()
        with self.state.lock:
            return self.core.declare(name, shards, expire_at)

    def ask(self, asks: Generator[list[Command], list[object], T], deadline: Deadline | None = None) -> T:
        self.begin_here()
        return self.reading.ask(asks, deadline or Deadline())

    def read(self, names: Collection[bytes], max_age: float | None) -> dict[bytes, CounterValue]:
        self.begin_here()
        if self.background.unavailable and not self.state.over:
            self.inline.flush_if_due()
        return self.reading.read(names, max_age)

    def flush(self, timeout: float | None, only: bytes | None = None) -> None:
        """Raises UsageError, Unavailable, Refused."""
        self.begin_here()
        self.delivery.flush(FLUSH_TIMEOUT_S if timeout is None else timeout, only)

    def close(self, timeout: float) -> None:
        """Raises Unavailable, Refused."""
        self.begin_here()
        if self.state.refusing and self.background.rounder is threading.current_thread():
            return  # an observer, called by the flusher that another thread's close() waits for
        with self.closing:  # a second call waits for the first; a handler of signals comes through
            if not self.state.over:
                self.delivery.close(timeout, self.ending.let_go)

    def keyed_calls(self) -> KeyedThreads:
        """Return what sends keyed calls; imported with the first of them."""
        self.begin_here()
        if self.keyed is None:
            from redis_counters.drivers.threads.keyed import KeyedThreads

            with self.state.lock:
                if self.keyed is None:
                    self.keyed = KeyedThreads(self)
        return self.keyed

    def stats(self) -> Stats:
        self.begin_here()
        with self.state.lock:
            return self.core.stats()
