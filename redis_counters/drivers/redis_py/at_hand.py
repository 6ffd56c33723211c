"""Looks whether a pool has a connected connection, so that taking it does not connect.

Connecting is done in another thread, for it may take any time; handing it over costs some tenth of what Redis does. So
redis-py's own lists are looked at first: where they are not as expected, or other threads take connections at the same
time, another thread takes it.
"""

from __future__ import annotations

import importlib.util
import os
import select
import socket
import threading
from typing import Any

from redis_counters.drivers.redis_py import compat


def _as_made() -> Any:
    """Return the module `select` as Python makes it: gevent and eventlet change it, and greenlets give way there.

    Looking must not give way: another greenlet would take the connection meanwhile, and read from it, which eventlet
    does not allow; or this one is killed there.
    """
    spec = importlib.util.find_spec("select")
    if spec is None or spec.loader is None:
        return select
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_select = _as_made()

_pid = os.getpid()
_lock = threading.RLock()
_taking: dict[int, int] = {}  # by the pool's id: how many threads take a connection just now


def begin_taking(pool: Any) -> bool:
    """The caller takes a connection, until `end_taking`. Return whether there is one for it."""
    if _pid != os.getpid():
        _begin_in_child()
    number = id(pool)
    with _lock:
        count = _taking[number] = _taking.get(number, 0) + 1
    return _has(pool, count)


def end_taking(pool: Any) -> None:
    number = id(pool)
    with _lock:
        if _taking.get(number, 0) > 1:
            _taking[number] -= 1
        else:
            _taking.pop(number, None)


def _begin_in_child() -> None:
    global _pid, _lock
    _pid, _lock = os.getpid(), threading.RLock()
    _taking.clear()


def _has(pool: Any, count: int) -> bool:
    """True if the next so many connections of the pool are connected, and nothing has come on them."""
    if getattr(pool, "pid", _pid) != _pid:  # it is the parent's, and begins anew when it is asked
        return False
    next_ones = (compat.idle_connections(pool) or [])[-count:]
    return len(next_ones) == count and all(map(_is_quiet, next_ones))


def _is_quiet(connection: Any) -> bool:
    if connection is None:
        return False
    sock = compat.socket_of(connection)
    if not isinstance(sock, socket.socket):
        return getattr(sock, "recv", None) is not None and type(sock).__module__.startswith("fakeredis")
    try:
        if not hasattr(_select, "poll"):
            return not _select.select([sock], [], [], 0)[0]
        poller = _select.poll()
        poller.register(sock, _select.POLLIN)
        return not poller.poll(0)
    except (OSError, ValueError):  # it was closed meanwhile
        return False
