"""Forks: clients of either face begin anew in the child, and a fork waits for look-ups of hosts.

A process knows itself by a sign that no child inherits (`wiped_page`), else by its id. Where Python forks, its hook
begins anew at once. Where other code forks, the first call in the child that counts, flushes, reads or does anything
else notices: each of these calls `notice` before it touches anything, above all a lock.

A thread that looks a host up has locks that cannot be renewed in the child: those of glibc (2.36: in resolv_conf.c,
for the time of a `stat`), and that of the import of the codec. A child that inherits one held would never look up a
host. So the codec is imported here, and a fork waits until no thread is seen looking up. That leaves a moment between
looking and forking; to close it, all that connects would have to take a lock, of this library and of others.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401
import gc
import os
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Protocol

from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.process.wiped_page import new_sign, wiped

MAX_WAIT_S = 0.2  # while an answer of the name server is awaited, these locks are free

_look_up = socket.getaddrinfo.__code__


class Forked(Protocol):
    """An object that begins anew in a child."""

    def after_fork_in_child(self) -> None: ...


here = new_sign()  # this process has begun by itself, as far as can be seen without asking for its id
here.value = True

_process = os.getpid()  # the one that has begun
_forked: weakref.WeakSet[Forked] = weakref.WeakSet()
_first: list[Callable[[], None]] = []
_beginning: dict[int, threading.RLock] = {}  # by process: a lock of the parent's may be held for ever


def begin_anew(each: Forked) -> None:
    """It begins anew in the child of every fork from now on."""
    _forked.add(each)


def forget(each: Forked) -> None:
    """It does not begin anew any more."""
    _forked.discard(each)


def before_all(hook: Callable[[], None]) -> None:
    """``hook()`` is called in the child of every fork from now on, before all others begin anew."""
    _first.append(hook)


def begun() -> bool:
    """False in the child of a fork, until all have begun anew there."""
    return bool(here) and (wiped(here) or os.getpid() == _process)


def notice() -> None:
    """If this process was forked, and that was not noticed yet, all begin anew.

    Threads that come at once wait for the first. Interrupted, it is done again, from the start.
    """
    if not begun():
        with _beginning.setdefault(os.getpid(), threading.RLock()):
            if not begun():
                _begin_all_anew()


def _begin_all_anew() -> None:
    global _process
    for hook in _first:
        hook()
    for each in list(_forked):
        each.after_fork_in_child()
    _process, here.value = os.getpid(), True


def _after_fork_in_child() -> None:
    if not wiped(here):
        here.value = False
    notice()  # nothing is left to do if a hook before this one has noticed


def _before_fork() -> None:
    end = monotonic() + MAX_WAIT_S
    while _somebody_looks_up() and monotonic() < end:
        time.sleep(0.0001)


def _somebody_looks_up() -> bool:
    own = threading.get_ident()
    return any(frame.f_code is _look_up for ident, frame in _current_frames().items() if ident != own)


def _current_frames() -> dict[int, FrameType]:
    """Return the frame of each thread, without a collection of garbage meanwhile.

    In CPython 3.11 one may begin within the call and wait for a lock that the call holds: for ever (gh-106883).
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if collects:
            gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
