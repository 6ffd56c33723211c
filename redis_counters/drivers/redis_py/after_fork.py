"""A client of redis-py in a forked child, or in another event loop: it has new locks and connections there.

redis-py notices a fork and starts its pool anew, but (8.1) takes the pool's lock for that, which a thread may hold that
exists only in the parent. redis.asyncio does not notice: parent and child would write into the same connections, and
read each other's answers. Nor does it notice that a connection belongs to an event loop that is closed.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from redis_counters.drivers.redis_py import compat
from redis_counters.drivers.redis_py.clients import Client

_OF_THREADS: dict[type, Callable[[], object]] = {
    type(threading.Lock()): threading.Lock,
    type(threading.RLock()): threading.RLock,
}
_OF_LOOPS: dict[type, Callable[[], object]] = {asyncio.Lock: asyncio.Lock, asyncio.Condition: asyncio.Condition}
_LIBRARIES = {"redis", "valkey", "fakeredis"}  # whose objects are looked through

_kept: list[object] = []  # connections of a parent: closing them here would take them from its event loop too


def begin_in_child(client: Client) -> None:
    """In the child of a fork a client of redis (blocking) has no lock that is held, and no connection of the parent."""
    if getattr(client, "connection", None) is not None:  # single_connection_client; the pool looks after itself
        client.connection = None  # type: ignore[attr-defined]
    renew_locks(client)


def renew_locks(client: Client, *, of_threads: bool = True) -> None:
    """No lock of the client, of its pool and of their objects is held, or belongs to an event loop.

    ``of_threads``: also those of threads, which are only left behind by a fork: in the same process other clients of
    the same ``memory://`` may hold them.
    """
    kinds = {**_OF_LOOPS, **_OF_THREADS} if of_threads else _OF_LOOPS
    renewed: dict[int, Any] = {}
    conditions: list[Any] = []
    for owner, name, value in _attributes(client):
        if type(value) in kinds:
            if id(value) not in renewed:
                renewed[id(value)] = kinds[type(value)]()
            setattr(owner, name, renewed[id(value)])
        elif type(value) is threading.Condition and of_threads:
            conditions.append(value)
    for condition in conditions:  # in place, with the lock that it shares with others; no thread waits for it
        condition.__init__(renewed.get(id(condition._lock)))


def drop_connections(client: Client, *, of_parent: bool) -> None:
    """The client of redis.asyncio makes new connections from now on, and its locks belong to no event loop yet.

    So do the clients of its Sentinels, if it asks any for the primary.
    """
    pool: Any = client.connection_pool
    for sentinel in getattr(getattr(pool, "sentinel_manager", None), "sentinels", ()):
        drop_connections(sentinel, of_parent=of_parent)
    single = getattr(client, "connection", None)
    if of_parent:
        _kept.extend(compat.connections_of(pool))
        _kept.append(single)
    if single is not None:
        client.connection = None  # type: ignore[attr-defined]  # where it has one, it may be None
    if hasattr(pool, "reset"):
        pool.reset()
    renew_locks(client, of_threads=of_parent)


def drop_connections_of_nodes(cluster: Any, *, of_parent: bool) -> None:
    """As `drop_connections`, for the nodes of a cluster's client of redis.asyncio."""
    for node in (*cluster.get_nodes(), *cluster.nodes_manager.startup_nodes.values()):
        held = compat.forget_connections(node)
        if of_parent:
            _kept.extend(held)
    renew_locks(cluster, of_threads=of_parent)


def _attributes(client: Client) -> Iterator[tuple[Any, str, Any]]:
    """Yield (owner, attribute, value) of all that is within the client."""
    seen: set[int] = set()
    todo: list[Any] = [client]
    while todo:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, dict):
            todo.extend(value for value in each.values() if _looked_through(value))
        elif isinstance(each, (list, tuple, set)):
            todo.extend(value for value in each if _looked_through(value))
        else:
            for name, value in compat.attributes_of(each):
                yield each, name, value
                if _looked_through(value):
                    todo.append(value)


def _looked_through(value: object) -> bool:
    kind = type(value)
    return kind in (dict, defaultdict, list, tuple, set) or kind.__module__.partition(".")[0] in _LIBRARIES
