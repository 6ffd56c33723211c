"""The two threads of a blocking client: started when needed, watched, and replaced when they are gone.

Where a thread cannot be started (at interpreter exit), or is started and makes no progress (uWSGI without
``enable-threads``), callers see that it is unavailable, and do the work themselves.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from redis_counters.drivers.clock import monotonic

STALLED = 5.0  # seconds that the flusher may take to notice that it was asked
HELP = 1.0  # seconds after which a waiting caller helps, without a word: the machine may be busy
RETRY = 0.5  # seconds until a thread that could not be started is tried again


class AutoResetEvent:
    """An event that is over once it was noticed.

    Made of a lock and nothing else: `threading.Event` and `Condition` are Python code, and an exception out of a signal
    handler (Ctrl-C) in the middle of it leaves their lock held, for all threads and for ever.
    """

    __slots__ = ("_silent",)

    def __init__(self) -> None:
        self._silent = threading.Lock()
        self._silent.acquire()

    def ring(self) -> None:
        if self._silent.locked():  # that of eventlet counts how often it was released
            try:  # noqa: SIM105 # suppress() takes longer than all the rest
                self._silent.release()
            except RuntimeError:  # another thread was faster
                pass

    def rings(self) -> bool:
        return not self._silent.locked()

    def wait(self, seconds: float) -> bool:
        """Return whether it rang within that time; if so, it does not ring any more."""
        return self._silent.acquire(timeout=min(max(seconds, 0.0), threading.TIMEOUT_MAX))

    def silence(self) -> None:
        self._silent.acquire(blocking=False)


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

    ``flush`` and ``help_out`` are what the threads do, over and over again. ``report`` is called when the flusher was
    found gone or absent; ``bury`` before another is started in the place of one that is gone.
    """

    def __init__(
        self,
        flush: Callable[[], None],
        help_out: Callable[[], None],
        *,
        bury: Callable[[threading.Thread], None],
        report: Callable[[str], None],
        slack: float,
    ) -> None:
        self._flush = flush
        self._help_out = help_out
        self._bury = bury
        self._report = report
        self._slack = slack  # seconds that the flusher may rest between two looks
        self._lock = threading.RLock()
        self.asked = AutoResetEvent()  # there is something to do
        self.helping = AutoResetEvent()  # a round has begun, or all is over
        self.connecting = False  # it may take long, and looks like not running
        self.stopped = False
        self.absent = False  # the flusher cannot be started, or was asked and did not come: callers do the work
        self.beats = 0
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
            if self.absent and monotonic() - self._since < RETRY:
                return False
            if not self.start():
                return False
        elif self.asked.rings():
            limit = STALLED + (self._slack if self._proved else 0.0)
            if not self.absent and monotonic() - self._since > limit:
                self.missed()
        else:
            self._since = monotonic()
            self.asked.ring()
        return self._proved and not self.absent

    def beat(self) -> None:
        """The flusher says that it runs; said by a caller that does its work, it means nothing."""
        if threading.get_ident() != self._ident:
            return
        self.beats += 1
        self._since = monotonic()
        self._proved = True
        self.absent = False

    def missed(self) -> None:
        """The flusher was asked and made no progress: if it is gone, another is started; else callers do the work."""
        with self._lock:
            if not self.replaced() and not self.stopped and not self.absent and not self.connecting:
                self.absent = True
                self._report("the thread that flushes makes no progress, callers flush")

    def replaced(self) -> bool:
        """Return whether the flusher was gone, and another one has taken its place."""
        with self._lock:
            if self.stopped or self.absent or not _gone(self._flusher):
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
                self._helper = _started(self._keep, self._help_out, self._generation, "redis-counters-buffer")
            return self._flusher is not None

    def _replace(self) -> None:
        gone, absent = self._flusher, self.absent
        if gone is not None:
            self._bury(gone)
            self._report("the thread that flushes was gone, another one is started")
        self._generation += 1
        self._proved, self._since = False, monotonic()
        self.asked.ring()
        self._flusher = _started(self._keep, self._flush, self._generation, "redis-counters")
        self.absent = self._flusher is None
        if self._flusher is not None:
            self._helper = _started(self._keep, self._help_out, self._generation, "redis-counters-buffer")
        elif not absent and threading.main_thread().is_alive():  # else the interpreter is ending, as it should
            self._report("no thread can be started, callers flush")

    def _keep(self, work: Callable[[], None], generation: int) -> None:
        """Do the work until the client is closed, whatever is raised in it: also what ends threads (SystemExit)."""
        if work is self._flush and generation == self._generation:
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

    def end(self, seconds: float) -> None:
        """The threads end; waits that long for each."""
        self.stopped = True
        self.asked.ring()
        self.helping.ring()
        for thread in (self._flusher, self._helper):
            if thread is not None and thread is not threading.current_thread():
                thread.join(seconds)

    def ended(self, seconds: float) -> bool:
        """As `end`; return whether they have ended."""
        self.end(seconds)
        return not _runs(self._flusher) and not _runs(self._helper)


def _runs(thread: Worker | None) -> bool:
    return thread is not None and not thread.over


def _gone(thread: Worker | None) -> bool:
    """True if the thread has ended, also if Python does not know (C code may end it), where that can be seen."""
    if thread is None or thread.over:
        return True
    tasks = "/proc/self/task"
    return os.path.isdir(tasks) and not os.path.exists(f"{tasks}/{thread.native_id}")


def _started(
    keep: Callable[[Callable[[], None], int], None], work: Callable[[], None], generation: int, name: str
) -> Worker | None:
    """Return a new thread that runs, None if none can be started."""
    try:  # isolated subinterpreters refuse daemon threads as soon as they are made
        thread = Worker(target=keep, args=(work, generation), name=name, daemon=True)
        thread.start()
    except RuntimeError:
        return None
    return thread
