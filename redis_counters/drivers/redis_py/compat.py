"""All that is used of redis-py beyond its documentation: private attributes, and parameters that some versions have.

Each was seen in redis-py 5.0.1, 5.2.1, 6.4.0, 7.1.0 and 8.1.0, where a function names no others. Where an attribute is
missing, a function says so by its result, and its caller goes the documented way, which is slower or says less.
`tests/drivers/compat_checks.py` tries each function with the installed redis-py and with those of `tests/matrix.sh`: it
fails where redis-py has changed what is used here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Mapping
from typing import Any, cast

# -- connections


def socket_of(connection: Any) -> Any:
    """Return the socket of a blocking connection; None where it is not connected, or has another kind of link.

    From 5.1 on, a connection with a client-side cache is a proxy of another one.
    """
    return getattr(getattr(connection, "_conn", connection), "_sock", None)


def link_of(connection: Any) -> object:
    """Return what is another one when the connection connects anew: its socket or stream, else the connection."""
    return socket_of(connection) or getattr(connection, "_writer", None) or connection


def hiredis_reader(connection: Any) -> Any:
    """Return the parser of hiredis that a blocking connection reads with; None where it uses no such, or is closed."""
    return getattr(getattr(connection, "_parser", None), "_reader", None)


def is_open(connection: Any) -> bool:
    """True if a connection of redis.asyncio is connected, and its end has not come yet, as far as can be seen."""
    reader = getattr(connection, "_reader", None)
    return bool(getattr(connection, "is_connected", False)) and reader is not None and not reader.at_eof()


def abort(connection: Any) -> None:
    """A connection of redis.asyncio is cut off: what was to be sent on it is not waited for."""
    transport = getattr(getattr(connection, "_writer", None), "transport", None)
    if transport is not None:
        transport.abort()


# -- pools


def get_connection(pool: object) -> Any:
    """Return what the pool gives: a connection, to be awaited in asyncio.

    Up to 5.2 it wants the name of a command; later ones warn of it.
    """
    get, kind = cast(Any, pool).get_connection, cast(Any, type(pool))
    return get("EVALSHA") if _wants_command(kind) else get()


@functools.cache
def _wants_command(kind: Any) -> bool:
    name = _parameters_of(kind, "get_connection").get("command_name")
    return name is not None and name.default is inspect.Parameter.empty


def _parameters(each: object, method: str) -> Mapping[str, inspect.Parameter]:
    kind: Any = type(each)
    return _parameters_of(kind, method)


@functools.cache
def _parameters_of(kind: Any, method: str) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(getattr(kind, method)).parameters


def gives_unread(pool: Any) -> bool:
    """True if the pool may give a connection with an answer that was not read.

    So it does with MAINT_NOTIFICATIONS and no cache (7.1, 8.1): what is unread may be one of these.
    """
    enabled = getattr(pool, "maint_notifications_enabled", None)
    return enabled is not None and bool(enabled()) and getattr(pool, "cache", None) is None


def idle_connections(pool: Any) -> list[Any] | None:
    """Return the pool's own list of idle connections, the next one last; None where it keeps no list.

    That of a blocking BlockingConnectionPool has None for each connection that is not made yet.
    """
    idle = _queue(pool)
    if idle is None:
        idle = getattr(pool, "_available_connections", None)
    return idle if isinstance(idle, list) else None


def _queue(pool: Any) -> Any:
    return getattr(getattr(pool, "pool", None), "queue", None)


def connections_of(pool: Any) -> list[Any]:
    """Return all connections of a pool of redis.asyncio, idle or in use."""
    return [*getattr(pool, "_available_connections", ()), *getattr(pool, "_in_use_connections", ())]


def is_exhausted(pool: Any) -> bool:
    """True if all connections that the pool may have are in use."""
    most, queue = getattr(pool, "max_connections", None), _queue(pool)
    if most is None:
        return False
    return not queue if queue is not None else len(getattr(pool, "_in_use_connections", ())) >= most


def can_spare_those_in_use(pool: object) -> bool:
    """False of a BlockingConnectionPool up to 6.4: its ``disconnect`` closes all connections."""
    return "inuse_connections" in _parameters(pool, "disconnect")


# -- clusters


def ask_for_slots(client: Any) -> None:
    """A blocking client of a cluster finds out again where the slots are; in 8.1 readers keep their connections."""
    manager: Any = client.nodes_manager
    option = "disconnect_startup_nodes_pools"
    manager.initialize(**({option: False} if option in _parameters(manager, "initialize") else {}))


def is_uninitialized(client: Any) -> bool:
    """True if a cluster's client of redis.asyncio has not found out yet where the slots are, or was closed."""
    return bool(getattr(client, "_initialize", False))


def forget_connections(node: Any) -> list[Any]:
    """A node of a cluster's client of redis.asyncio has no connections any more; return those that it had."""
    held: list[Any] = []
    for name in ("_connections", "_free"):
        own = getattr(node, name, None)
        if own is not None:
            held += own
            own.clear()
    return held


# -- what is looked through for locks


def attributes_of(each: Any) -> Iterable[tuple[str, Any]]:
    """Return names and values of all attributes of an object, private ones and those in slots too."""
    slots = [name for kind in type(each).__mro__ for name in getattr(kind, "__slots__", ())]
    names = {*getattr(each, "__dict__", ()), *slots}
    return [(name, getattr(each, name)) for name in names if hasattr(each, name)]


# -- retries


def retries_of(retry: Any) -> tuple[Any, float, float]:
    """Return how often a ``Retry`` repeats, None if that is not known; and base and cap of its pauses, in seconds."""
    backoff = getattr(retry, "_backoff", None)
    return getattr(retry, "_retries", None), getattr(backoff, "_base", 0.0), getattr(backoff, "_cap", 0.0)
