"""Where `threading` is not what it was: gevent and eventlet put greenlets in the place of threads, often late.

Waiting on a lock that was made before would keep the whole thread of the operating system waiting, with all greenlets
in it, also that which would release it. So a client remembers what its locks are made of, and makes them anew where
`threading` makes others now: in a worker of gunicorn, say, that patches after the application was imported.

eventlet also takes away what redis-py (8.1) has seen at its import and goes on to use, `select.poll`. So with eventlet
too late is refused, loudly, where nothing would ever be sent otherwise.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from redis_counters.errors import UsageError

if TYPE_CHECKING:
    from redis_counters.drivers.threads.runner import ThreadRunner

END_TIMEOUT_S = 15.0  # that threads of before may take to end: longer than Redis may take to answer

_at_import = threading.Lock
_remaking: dict[object, threading.RLock] = {}  # by what locks are made of


def check_in_time() -> None:
    """Raises UsageError if eventlet has patched after this was imported."""
    made_of = threading.Lock
    if made_of is not _at_import and type(made_of()).__module__.partition(".")[0] == "eventlet":
        raise UsageError(
            "eventlet.monkey_patch() was called after redis_counters, and so redis-py, was imported, which breaks "
            "redis-py: call it first"
        )


def remake(runner: ThreadRunner) -> None:
    """The client's locks are of what `threading` has now, and so will its background be; no count changes.

    Raises: UsageError if that cannot be.
    """
    check_in_time()
    made_of = threading.Lock
    with _remaking.setdefault(made_of, threading.RLock()):
        if runner.made_of is made_of:
            return
        if not runner.background.end(END_TIMEOUT_S):
            raise UsageError("threads were patched while this client sent something: patch before it is used")
        runner.rounds.abandon()
        runner.make_parts()
        if runner.recording is not None:
            runner.recording.abandon()
        runner.transport.disconnect_idle()  # their sockets would keep all greenlets waiting
        runner.transport.begin_in_child()  # and so would the locks
