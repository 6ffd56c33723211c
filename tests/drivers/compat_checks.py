"""Whether redis-py still has what `compat` uses of it: asked of real connections, in both faces.

Needs nothing but redis-counters and its dependencies, as `run_small.py` does, which runs this under older versions.
"""

from __future__ import annotations

import asyncio
import importlib.util
import socket
from typing import Any

import redis
import redis.asyncio
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from redis_counters.drivers.redis_py import after_fork, compat


def check_blocking(url: str) -> None:
    """What is used of blocking connections and pools is there."""
    for kind in (redis.ConnectionPool, redis.BlockingConnectionPool):
        pool: Any = kind.from_url(url, max_connections=2)
        first, second = compat.get_connection(pool), compat.get_connection(pool)
        sock = compat.socket_of(first)
        assert isinstance(sock, socket.socket)
        assert compat.link_of(first) is sock
        if importlib.util.find_spec("hiredis") is not None:
            assert compat.hiredis_reader(first).has_data() is False
        assert compat.is_exhausted(pool)
        pool.release(second)
        idle = compat.idle_connections(pool)
        assert idle is not None
        assert idle[-1] is second
        assert not compat.is_exhausted(pool)
        if compat.can_spare_those_in_use(pool):
            pool.disconnect(inuse_connections=False)
            assert compat.socket_of(second) is None
            assert compat.socket_of(first) is sock
        assert compat.gives_unread(pool) in (True, False)
        assert any(type(value) in after_fork._OF_THREADS for _name, value in compat.attributes_of(pool))
        pool.release(first)
        pool.disconnect()
        assert compat.link_of(first) is first


async def check_asyncio(url: str) -> None:
    """What is used of connections and pools of redis.asyncio is there."""
    for kind in (redis.asyncio.ConnectionPool, redis.asyncio.BlockingConnectionPool):
        pool: Any = kind.from_url(url, max_connections=1)
        connection = await compat.get_connection(pool)
        assert compat.is_open(connection)
        link = compat.link_of(connection)
        assert isinstance(link, asyncio.StreamWriter)
        assert compat.is_exhausted(pool)
        assert compat.connections_of(pool) == [connection]
        await pool.release(connection)
        assert compat.idle_connections(pool) == compat.connections_of(pool) == [connection]
        assert compat.can_spare_those_in_use(pool)
        compat.abort(connection)
        assert link.transport.is_closing()
        await connection.disconnect(nowait=True)
        assert not compat.is_open(connection)


def check_cluster(url: str) -> None:
    """A blocking client of a cluster can be asked to look again where the slots are."""
    client: Any = redis.RedisCluster.from_url(url)
    client.nodes_manager.slots_cache.clear()
    compat.ask_for_slots(client)
    assert client.nodes_manager.slots_cache
    client.close()


async def check_cluster_asyncio(url: str) -> None:
    """What is used of a client of redis.asyncio at a cluster is there."""
    client: Any = redis.asyncio.RedisCluster.from_url(url)
    assert compat.is_uninitialized(client)
    await client.ping(target_nodes=redis.asyncio.RedisCluster.ALL_NODES)
    assert not compat.is_uninitialized(client)
    assert "_lock" in dict(compat.attributes_of(client))  # in a slot
    node = client.get_nodes()[0]
    held = compat.forget_connections(node)
    assert held
    assert all(map(compat.is_open, held))
    assert not compat.forget_connections(node)
    for connection in held:
        await connection.disconnect()
    await client.aclose() if hasattr(client, "aclose") else await client.close()


def check_retries() -> None:
    """What a ``Retry`` was made with can be told."""
    make: Any = ExponentialBackoff
    assert compat.retries_of(Retry(make(cap=3.0, base=0.5), 7)) == (7, 0.5, 3.0)
    assert compat.retries_of(object()) == (None, 0.0, 0.0)


def check(url: str) -> None:
    """Everything that is used at this kind of server is there. ``url``: as `run_small.py` has it."""
    check_retries()
    if "+cluster" in url:
        check_cluster(url.replace("+cluster", ""))
        asyncio.run(check_cluster_asyncio(url.replace("+cluster", "")))
    elif "+sentinel" not in url:
        check_blocking(url)
        asyncio.run(check_asyncio(url))
