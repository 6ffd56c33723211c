"""Who begins anew in the child of a fork, whichever face he belongs to; and what a fork waits for.

A thread that looks a host up has locks that nobody can renew in the child: those of glibc (2.36: in resolv_conf.c,
for the time of a `stat`), and that of the import of the codec. A child that inherits one held would never look up a
host. So the codec is imported here, and a fork waits until no thread is seen looking up. That leaves a moment between
looking and forking; to close it, all that connects would have to take a lock, of this library and of others.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401
import os
import socket
import sys
import threading
import time
import weakref
from typing import Protocol

from redis_counters.drivers.clock import monotonic

LONGEST_WAIT = 0.2  # seconds: while an answer of the name server is awaited, these locks are free

_look_up = socket.getaddrinfo.__code__


class Forked(Protocol):
    """What would go on as its parent's."""

    def after_fork_in_child(self) -> None: ...


_forked: weakref.WeakSet[Forked] = weakref.WeakSet()


def begin_anew(each: Forked) -> None:
    """It is told in the child of every fork from now on."""
    _forked.add(each)


def forget(each: Forked) -> None:
    """It is not told any more."""
    _forked.discard(each)


def _after_fork_in_child() -> None:
    for each in list(_forked):
        each.after_fork_in_child()


def _before_fork() -> None:
    end = monotonic() + LONGEST_WAIT
    while _somebody_looks_up() and monotonic() < end:
        time.sleep(0.0001)


def _somebody_looks_up() -> bool:
    here = threading.get_ident()
    return any(frame.f_code is _look_up for ident, frame in sys._current_frames().items() if ident != here)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
