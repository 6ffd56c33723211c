"""The end of a process: clients are closed, then embedded servers.

Hooks of `atexit` that were registered after a client may count too. So clients are closed by one hook, registered when
this library is imported, which runs after all of these; an embedded server is ended after the clients.

Children of multiprocessing end by ``os._exit`` and run no hook of `atexit` (before Python 3.14), but finalizers of
their own.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable

from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.process.fork_hooks import notice

LIMIT_S = 5.0  # that all of it may take while Redis is away
LEAST_S = 0.5  # of which each client may have at least this for a last attempt

Close = Callable[[float], None]

_clients: dict[object, Close] = {}
_servers: dict[object, Callable[[], None]] = {}
_deadline: float | None = None


def rest() -> float:
    """Return the seconds left for delivering."""
    global _deadline  # noqa: PLW0603 - of the process, as its end is
    now = monotonic()
    if _deadline is None:
        _deadline = now + LIMIT_S
    return max(LEAST_S, _deadline - now)


def ending() -> bool:
    """True from when the hooks of exit run on."""
    return _deadline is not None


def close_at_exit(client: object, close: Close) -> None:
    """``close(seconds)`` is called at exit, unless `forget` was before."""
    _clients[client] = close


def stop_at_exit(server: object, stop: Callable[[], None]) -> None:
    """``stop()`` is called at exit after all clients are closed, unless `forget` was before."""
    _servers[server] = stop


def forget(each: object) -> None:
    """Nothing is to be done for it at exit."""
    _clients.pop(each, None)
    _servers.pop(each, None)


def close_in_child(close: Close) -> Callable[[], object]:
    """If this is a child of multiprocessing, ``close(seconds)`` is called at its end; return how to call that off."""
    process, util = sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")
    if process is None or util is None or process.parent_process() is None:
        return _nothing
    cancel: Callable[[], object] = util.Finalize(None, close, args=(LIMIT_S,), exitpriority=-100).cancel
    return cancel


def _nothing() -> None: ...


def _at_exit() -> None:
    notice()
    rest()
    for close in list(_clients.values()):
        close(rest())
    for stop in list(_servers.values()):
        stop()


atexit.register(_at_exit)
