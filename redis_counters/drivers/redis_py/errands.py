"""Work that cannot be interrupted is done in a thread of its own, and waited for no longer than a call may take.

Connecting is such work: looking a host up, the time-outs and retries of the caller's client, a log-in that is answered
byte by byte. A call that waits no longer leaves the thread to itself: it ends when redis-py does, and puts back its
connection.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from redis import exceptions

from redis_counters.drivers.deadline import Deadline

T = TypeVar("T")


class TooLate(exceptions.TimeoutError):
    """The deadline has passed, and the work goes on."""


class Errand(Generic[T]):
    """Work in a thread of its own. ``discard`` puts back its result, if no call waits for it any more."""

    def __init__(self, work: Callable[[], T], discard: Callable[[T], object] | None = None) -> None:
        self._work = work
        self._discard = discard
        self._lock = threading.RLock()
        self._waiting = threading.Lock()  # held until it is over; each waiting thread passes it on
        self._waiting.acquire()
        self._left = False
        self._over = False
        self._result: Any = None
        self._error: BaseException | None = None
        run = contextvars.copy_context().run
        try:
            threading.Thread(target=run, args=(self._run,), name="redis-counters-connect", daemon=True).start()
        except RuntimeError:  # no thread can be started: it takes as long as it takes
            self._run()
        except BaseException:  # of a signal handler, or a greenlet is killed: the thread may run all the same
            self.leave()
            raise

    @property
    def over(self) -> bool:
        return self._over

    def _run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:
            self._error = error
        with self._lock:
            self._over = True
            unwanted = self._left and self._error is None and self._discard is not None
        self._waiting.release()
        if unwanted and self._discard is not None:
            self._discard(self._result)

    def result(self, deadline: Deadline) -> T:
        """Return what the work returned, raise what it raised; TooLate if that is not known in time."""
        came = False
        try:
            came = self._waiting.acquire(timeout=min(deadline.left(), threading.TIMEOUT_MAX))
        finally:  # also where a signal handler has raised: then the result is not taken
            if came:
                self._waiting.release()
            else:
                self.leave()
        if not came:
            raise TooLate(deadline.words)
        if self._error is not None:
            raise self._error
        result: T = self._result
        return result

    def leave(self) -> None:
        """The caller waits no longer."""
        with self._lock:
            unwanted = self._over and not self._left and self._error is None and self._discard is not None
            self._left = True
        if unwanted and self._discard is not None:
            self._discard(self._result)


def within(deadline: Deadline, work: Callable[[], T], discard: Callable[[T], object] | None = None) -> T:
    """Return what the work returns, raise what it raises; TooLate when the deadline has passed."""
    if not deadline.left():
        raise TooLate(deadline.words)
    errand = Errand(work, discard)
    try:
        return errand.result(deadline)
    except BaseException:  # also of a signal handler, before it waits
        errand.leave()
        raise
