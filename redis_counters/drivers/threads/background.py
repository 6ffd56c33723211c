"""The two threads of a blocking client: started when needed, watched, and replaced when they are gone.

Where a thread cannot be started (at interpreter exit), or is started and makes no progress (uWSGI without
``enable-threads``), callers see that it is unavailable, and do the work themselves.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from redis_counters.drivers.client_state import ClientState
from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.pacing import IDLE_POLL_S
from redis_counters.drivers.threads.recording import Recording
from redis_counters.drivers.transport import Lane, Meanwhile, Transport
from redis_counters.errors import Unavailable
from redis_counters.events import EventKind

STALLED_S = 5.0  # that the flusher may take to notice that it was asked
RESTART_S = 0.5  # until a thread that could not be started is tried again
SURVIVED: type[BaseException] = BaseException  # by the background: also what ends threads (SystemExit)


class AutoResetEvent:
    """An event that is over once it was noticed.

    Made of a lock and nothing else: `threading.Event` and `Condition` are Python code, and an exception out of a signal
    handler (Ctrl-C) in the middle of it leaves their lock held, for all threads and for ever.
    """

    __slots__ = ("_unset",)

    def __init__(self) -> None:
        self._unset = threading.Lock()
        self._unset.acquire()

    def set(self) -> None:
        if self._unset.locked():  # that of eventlet counts how often it was released
            try:  # noqa: SIM105 # suppress() takes longer than all the rest
                self._unset.release()
            except RuntimeError:  # another thread was faster
                pass

    def is_set(self) -> bool:
        return not self._unset.locked()

    def wait(self, seconds: float) -> bool:
        """Return whether it was set within that time; if so, it is not set any more."""
        return self._unset.acquire(timeout=min(max(seconds, 0.0), threading.TIMEOUT_MAX))

    def clear(self) -> None:
        self._unset.acquire(blocking=False)


class Worker(threading.Thread):
    """A thread that says itself that it is over.

    `is_alive` gives way to other greenlets under gevent; and if the caller is killed there, the thread counts as ended,
    while it runs (CPython 3.8 to 3.12: what it does about exceptions of signal handlers, in `_wait_for_tstate_lock`).
    """

    over = False

    def run(self) -> None:
        try:
            super().run()
        finally:
            self.over = True


class Background:
    """The flusher, and the helper beside it.

    ``turn`` is what the flusher does, over and over again. ``reclaim`` is called when it is gone in the middle of a
    round, before another takes its place.
    """

    def __init__(
        self,
        state: ClientState,
        recording: Recording | None,
        turn: Callable[[], None],
        reclaim: Callable[[], None],
    ) -> None:
        self.state = state
        self.recording = recording
        self.interval = state.core.settings.flush_interval
        self.asked = AutoResetEvent()  # there is something to do
        self.connecting = False  # it may take long, and looks like not running
        self.stopped = False
        self.unavailable = False  # the flusher cannot be started, or was asked and did not come: callers do the work
        self.heartbeats = 0
        self.rounder: threading.Thread | None = None  # runs the round that goes on
        self._turn = turn
        self._reclaim = reclaim
        self._lock = threading.RLock()
        self._helping = AutoResetEvent()  # a round has begun, or all is over
        self._ended = AutoResetEvent()
        self._generation = 0
        self._ident = 0  # of the flusher
        self._flusher: Worker | None = None
        self._helper: Worker | None = None
        self._proved = False  # the flusher has run
        self._since = 0.0  # when it was last asked or started, or when its heartbeat was seen

    @property
    def begun(self) -> bool:
        """There is, or was, a flusher."""
        return self._flusher is not None

    def ask(self) -> bool:
        """The flusher is asked to work; False if it cannot be relied on to do so."""
        if not _runs(self._flusher):
            if self.unavailable and monotonic() - self._since < RESTART_S:
                return False
            if not self.start():
                return False
        elif self.asked.is_set():
            limit = STALLED_S + (self.interval if self._proved else 0.0)  # so long it may rest between two looks
            if not self.unavailable and monotonic() - self._since > limit:
                self._stalled()
        else:
            self._since = monotonic()
            self.asked.set()
        return self._proved and not self.unavailable

    def heartbeat(self) -> None:
        """The flusher says that it runs; said by a caller that does its work, it means nothing."""
        if threading.get_ident() != self._ident:
            return
        self.heartbeats += 1
        self._since = monotonic()
        self._proved = True
        self.unavailable = False

    def _stalled(self) -> None:
        """The flusher was asked and made no progress: if it is gone, another is started; else callers do the work."""
        with self._lock:
            if not self.replaced() and not self.stopped and not self.unavailable and not self.connecting:
                self.unavailable = True
                self._report("the thread that flushes makes no progress, callers flush")

    def replaced(self) -> bool:
        """Return whether the flusher was gone, and another one has taken its place."""
        with self._lock:
            if self.stopped or self.unavailable or not _gone(self._flusher):
                return False
            self._replace()
            return True

    def start(self) -> bool:
        """The threads run. False if the flusher cannot: there is none to be had, or the interpreter is ending."""
        with self._lock:
            if self.stopped:
                return False
            if not _runs(self._flusher):
                self._replace()
            elif not _runs(self._helper):
                self._helper = self._start_thread(self._absorb, "redis-counters-buffer")
            return self._flusher is not None

    def _replace(self) -> None:
        gone, unavailable = self._flusher, self.unavailable
        if gone is not None:
            if self.rounder is gone:  # C code may end a thread without a word
                self.end_round()
                self._reclaim()
            self._report("the thread that flushes was gone, another one is started")
        self._generation += 1
        self._proved, self._since = False, monotonic()
        self.asked.set()
        self._flusher = self._start_thread(self._turn, "redis-counters")
        self.unavailable = self._flusher is None
        if self._flusher is not None:
            self._helper = self._start_thread(self._absorb, "redis-counters-buffer")
        elif not unavailable and threading.main_thread().is_alive():  # else the interpreter is ending, as it should
            self._report("no thread can be started, callers flush")

    def _start_thread(self, work: Callable[[], None], name: str) -> Worker | None:
        """Return a new thread that runs, None if none can be started."""
        try:  # isolated subinterpreters refuse daemon threads as soon as they are made
            thread = Worker(target=self._keep, args=(work, self._generation), name=name, daemon=True)
            thread.start()
        except RuntimeError:
            return None
        return thread

    def _keep(self, work: Callable[[], None], generation: int) -> None:
        """Do the work until the client is closed, whatever is raised in it: also what ends threads (SystemExit)."""
        if work is self._turn and generation == self._generation:
            self._ident = threading.get_ident()
        while not self.stopped and generation == self._generation:
            try:
                while not self.stopped and generation == self._generation:
                    work()
            except BaseException as error:
                try:
                    self._report(f"the background was to end by {type(error).__name__}, it goes on")
                except BaseException:  # of a handler of the caller's
                    time.sleep(0.1)

    def _report(self, text: str) -> None:
        """The next `publish` logs what happened to the background."""
        self.state.core.report(EventKind.FLUSHER_RESTARTED, text)

    def begin_round(self) -> None:
        """This thread runs a round from now on; meanwhile the helper takes in what is counted."""
        self.rounder = threading.current_thread()
        self.connecting = True
        self._helping.set()

    def end_round(self) -> None:
        self.rounder = None
        self.connecting = False

    def lane(self, transport: Transport, until: Deadline | None = None) -> AbstractContextManager[Lane]:
        """A lane; while an answer is awaited, the flusher shows that it runs."""
        return transport.lane(until, meanwhile=Meanwhile(self._still_waits, self.interval))

    def _still_waits(self) -> None:
        if self.state.stopped:  # the connection is about to be closed under us
            raise Unavailable("the client was closed while an answer was awaited")
        self.heartbeat()

    def _absorb(self) -> None:
        """While a round takes long (redis-py may be connecting), the buffer must not grow with every increment."""
        core = self.state.core
        self._helping.wait(IDLE_POLL_S)
        while self.rounder is not None and not self.stopped:
            self._ended.wait(self.interval)
            if self.rounder is not None and (core.overdue or self.recording is not None):
                with self.state.lock:
                    core.writer.absorb()
                if self.recording is not None:
                    self.recording.own()

    def end(self, seconds: float) -> bool:
        """The threads end; waits that long for each. Return whether they have ended."""
        self.stopped = True
        self.asked.set()
        self._helping.set()
        self._ended.set()
        for thread in (self._flusher, self._helper):
            if thread is not None and thread is not threading.current_thread():
                thread.join(seconds)
        return not _runs(self._flusher) and not _runs(self._helper)


def _runs(thread: Worker | None) -> bool:
    return thread is not None and not thread.over


def _gone(thread: Worker | None) -> bool:
    """True if the thread has ended, also if Python does not know (C code may end it), where that can be seen."""
    if thread is None or thread.over:
        return True
    tasks = "/proc/self/task"
    return os.path.isdir(tasks) and not os.path.exists(f"{tasks}/{thread.native_id}")
