"""One round at a time on a connection of its own: flushing, or a step of the janitor."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from redis_counters.drivers.client_state import ClientState
from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.pacing import open_recording, round_error
from redis_counters.drivers.process import fork_hooks
from redis_counters.drivers.threads.background import AutoResetEvent, Background
from redis_counters.drivers.threads.steps import work_through
from redis_counters.drivers.transport import Lane, Meanwhile, Transport
from redis_counters.errors import Refused, Unavailable
from redis_counters.protocol.core import Core
from redis_counters.protocol.flush.round import SendStep, Steps
from redis_counters.protocol.wire.answers import all_answered
from redis_counters.protocol.wire.commands import Command

if TYPE_CHECKING:
    from redis_counters.drivers.threads.keyed import KeyedThreads
    from redis_counters.drivers.threads.recording import Recording


class Rounds(ClientState):
    """The state that threads share, and whatever uses a connection for flushing."""

    lock: threading.RLock
    background: Background
    recording: Recording | None

    def __init__(self, core: Core, transport: Transport) -> None:
        super().__init__(core)
        self.transport = transport
        self.stop_client: Callable[[], None] | None = None  # if the client is not the caller's
        self._reset()
        self.recording = open_recording(core, self._make_recording)

    def _make_recording(self) -> Recording:
        from redis_counters.drivers.threads.recording import Recording  # with sqlite3, which only journals need

        return Recording(self.core, self.lock)

    def _reset(self) -> None:
        self.made_of = threading.Lock  # all that is made here
        self.lock = threading.RLock()
        self.closing = threading.RLock()  # one close() at a time
        self.readers: list[AutoResetEvent] = []  # wait until another thread's fetch is over
        self.urgent = AutoResetEvent()  # a caller waits for a flush
        self.ended = AutoResetEvent()  # the client was closed
        self.rounding = threading.Lock()  # one round at a time,
        self.rounder: threading.Thread | None = None  # by this thread,
        self.steps: Steps | None = None  # and this is it, if it is one of flushing
        self.in_round = False
        self.keyed: KeyedThreads | None = None  # made when it is needed
        self.rounds = 0
        self.waiters: list[tuple[Callable[[], bool], AutoResetEvent]] = []  # what callers wait for
        self.refusal: Refused | None = None  # what the last round as a whole was refused for
        self.expecting = 0.0  # the flusher was asked: until then something may come
        self.inline_flush_due, self.inline_backoff = 0.0, 0.0  # when a caller may flush, if no thread does
        self.in_child: Callable[[], object] | None = None

    def begin_here(self) -> None:
        """Be of this process, with what `threading` has now. To be called before any lock is touched."""
        fork_hooks.notice()
        if threading.Lock is not self.made_of:
            self._remake()

    @abstractmethod
    def _remake(self) -> None:
        """All is of what `threading` has now; the runner knows how."""

    def _absorb(self) -> None:
        with self.lock:
            self.core.writer.absorb()

    def _meanwhile(self) -> Meanwhile:
        return Meanwhile(self._still_waits, self.core.settings.flush_interval)

    def _still_waits(self) -> None:
        """While an answer is awaited."""
        if self.stopped:  # the connection is about to be closed under us
            raise Unavailable("the client was closed while an answer was awaited")
        self.background.beat()

    def send(self, lane: Lane, step: SendStep) -> None:
        self.background.connecting = True  # over several servers a lane does so when it has to
        lane.send(step.command, step.text)
        self.background.connecting = False

    def progressed(self) -> None:
        self._tell_waiters()

    def beat(self) -> None:
        self.background.beat()

    def _enter_round(self) -> None:
        self.rounder = threading.current_thread()
        self.in_round = self.background.connecting = True
        self.background.helping.ring()

    def _leave_round(self) -> None:
        self.rounder = None
        self.in_round = self.background.connecting = False

    def round(self, until: Deadline | None = None) -> None:
        """Everything that could be sent was sent, and answered. Raises Unavailable, Refused; nothing is lost by it.

        ``until``: when it is over in any case.
        """
        try:
            self._round(until)
        finally:
            self.publish()

    def _round(self, until: Deadline | None) -> None:
        with self.rounding:
            try:
                self._enter_round()
                self._drive_round(until)
            except Exception as error:
                ours = self.round_failed(error)
                if ours is error:
                    raise
                raise ours from error
            finally:
                self._leave_round()
                self.rounds += 1
                self._tell_waiters(all_of_them=True)

    def _drive_round(self, until: Deadline | None) -> None:
        before = self.steps
        if before is not None:  # an exception of a signal handler kept it from being closed
            with self.lock:
                before.close()
        recording = self.recording
        if recording is not None:
            recording.seek()
            self._absorb()
            recording.own()
        steps = self.steps = self.core.round()
        try:
            with self.transport.lane(until, meanwhile=self._meanwhile()) as lane:
                self.background.connecting = False
                work_through(self, steps, lane)
        finally:
            with self.lock:
                steps.close()
        self.steps = None
        if recording is not None:
            recording.tidy()
        with self.lock:
            error = round_error(self.core)
        if error is not None:
            raise error
        with self.lock:
            self.core.succeeded()
            self.breaker.succeeded()
            self.refusal = None

    def _tell_waiters(self, *, all_of_them: bool = False) -> None:
        for done, bell in tuple(self.waiters):
            if all_of_them or done():
                bell.ring()

    def exchange(self, commands: list[Command]) -> list[object]:
        """Return the answers to commands of the janitor. Raises where one has none."""
        with self.rounding:
            try:
                self._enter_round()
                with self.transport.lane(meanwhile=self._meanwhile()) as lane:
                    self.background.connecting = False
                    answers = lane.exchange(commands)
                    return all_answered(answers)
            finally:
                self._leave_round()
