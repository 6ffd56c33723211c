"""Reads and writes that take too long are cut off.

The time-outs of sockets are for each piece that arrives: a server that sends a byte now and then is never too late for
them. So one thread of the process knows until when each connection is waited on, and shuts its socket down at the
deadline. The read ends at once then, in any version and parser of redis-py, over TLS too. The thread ends when no
connection was waited on for a while. Where no thread can be started, only the sockets' own time-outs hold.
"""

from __future__ import annotations

import itertools
import os
import socket
import threading
import weakref
from contextlib import suppress
from types import TracebackType
from typing import Any

from redis import exceptions

from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.deadline import GRACE_S, Deadline
from redis_counters.drivers.redis_py import compat

LOOK_S = 1.0  # between looks for late connections
LOOK_AGAIN_S = 0.1  # the same while one is late: redis-py may have connected again
BROKEN = (exceptions.ConnectionError, exceptions.TimeoutError, OSError)  # what comes up where a socket is shut down


class _Watch:
    """The thread of one process. Its lock is held for moments only; a signal handler may come in between.

    What is watched is held weakly: a call that was interrupted on its way in or out is gone, and no connection is cut
    off on its behalf.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.made_of = threading.Lock
        self.lock = threading.RLock()
        self.watched: dict[int, weakref.ref[Watched]] = {}
        self.numbers = itertools.count()
        self.running = False
        self.used = False  # since the last look
        self.next_look = 0.0
        self.wake = threading.Lock()
        self.wake.acquire()

    def begin(self, watched: Watched) -> int:
        number = next(self.numbers)
        with self.lock:
            self.watched[number] = weakref.ref(watched)
            self.used = True
            if not self.running:
                self._start()
        if watched.at < self.next_look and self.wake.locked():
            try:  # noqa: SIM105 # another thread may have been faster
                self.wake.release()
            except RuntimeError:
                pass
        return number

    def end(self, number: int) -> None:
        with self.lock:
            self.watched.pop(number, None)

    def _start(self) -> None:
        self.running = True
        started = False
        self.next_look = monotonic() + LOOK_S
        try:
            threading.Thread(target=self._run, name="redis-counters-watch", daemon=True).start()
            started = True
        except RuntimeError:  # at the end of the interpreter, or where threads are not allowed
            pass
        finally:  # after Ctrl-C two may run; either ends
            self.running = started

    def _run(self) -> None:
        try:
            while self._look():
                pass
        except BaseException:
            self.running = False  # the next call starts another one
            raise

    def _look(self) -> bool:
        """Cut off late connections; False if none was waited on for a while, and so the thread ends."""
        self.wake.acquire(timeout=max(0.0, self.next_look - monotonic()))
        with self.lock:
            present = {number: watched for number, each in self.watched.items() if (watched := each()) is not None}
            self.watched = {number: self.watched[number] for number in present}
            if not self.used and not present:
                self.running = False
                return False
            self.used = False
            now = monotonic()
            late = [each for each in present.values() if each.at <= now]
            for each in late:
                each.late = True
                _shut_down(each.connection)
            pause = LOOK_AGAIN_S if late else LOOK_S
            self.next_look = min([now + pause, *(each.at for each in present.values() if not each.late)])
            return True


_watch = _Watch()


def _of_this_process() -> _Watch:
    """Return the watch; in the child of any fork, the thread of the parent does not run.

    Where `threading` is another one by now (gevent patches late), a lock of before would hold up all greenlets.
    """
    global _watch  # noqa: PLW0603 - of the process, as its threads are
    if _watch.pid != os.getpid() or _watch.made_of is not threading.Lock:
        _watch = _Watch()
    return _watch


class Watched:
    """While it is entered, the connection is cut off at the deadline. Raises TimeoutError for what comes of that.

    What has arrived when the deadline has passed may still be read.
    """

    __slots__ = ("__weakref__", "_number", "_watch", "at", "connection", "deadline", "late")

    def __init__(self, connection: Any, deadline: Deadline) -> None:
        self.connection = connection
        self.deadline = deadline
        self.at = max(deadline.at, monotonic() + GRACE_S)
        self.late = False

    def __enter__(self) -> None:
        self._watch = _of_this_process()
        self._number = self._watch.begin(self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._watch.end(self._number)
        if self.late and (error is None or isinstance(error, BROKEN)):
            raise exceptions.TimeoutError(self.deadline.words) from None


def _shut_down(connection: Any) -> None:
    """Reads and writes on the connection's socket end. Nothing but the socket is touched."""
    sock = compat.socket_of(connection)
    if isinstance(sock, socket.socket):
        with suppress(
            OSError
        ):  # not by its own method: that of TLS would first change the object that another thread reads from
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
