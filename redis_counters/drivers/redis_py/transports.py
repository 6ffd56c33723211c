"""The transport of a client of redis-py. Raises UsageError for anything else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from redis_counters.drivers.redis_py.clients import check_encoding, is_asyncio, pool_of
from redis_counters.drivers.redis_py.single import Single, SingleAsyncio
from redis_counters.drivers.transport import AwaitedTransport, Transport
from redis_counters.errors import UsageError


class LaterCluster:
    """A cluster by its URL, for the blocking face. redis-py connects when it makes a client: this makes it later."""

    def __init__(self, url: str, others: Sequence[tuple[str, int]], options: dict[str, Any]) -> None:
        self._url = url
        self._others = others  # servers that may be asked too
        first = urlsplit(url)
        self.addresses = [(first.hostname or "localhost", first.port or 6379), *others]
        self.options = options
        self.client: Any = None

    def open(self) -> Any:
        """Return the client. Raises what redis-py raises where no server of the cluster answers."""
        if self.client is None:
            from redis.cluster import ClusterNode, RedisCluster

            make_node: Any = ClusterNode
            nodes = [make_node(*address) for address in self._others]
            client = RedisCluster.from_url(self._url, startup_nodes=nodes, **self.options)
            if self.client is None:
                self.client = client
            else:  # made by a signal handler meanwhile
                client.close()
        return self.client

    def close(self) -> None:
        if self.client is not None:
            self.client.close()
            for node in self.client.get_nodes():  # redis-py leaves pools open that it was given, by itself too
                if node.redis_connection is not None:
                    node.redis_connection.connection_pool.disconnect()


def transport_of(client: Any) -> Transport:
    """Return the transport of a blocking client."""
    if isinstance(client, LaterCluster):
        from redis_counters.drivers.redis_py.cluster import Cluster

        return Cluster(client.open, client.options, client.addresses)
    if _is_cluster(client, asyncio=False):
        from redis_counters.drivers.redis_py.cluster import Cluster

        return Cluster(lambda: client, client.get_connection_kwargs())
    return Single(client)


def transport_of_asyncio(client: Any) -> AwaitedTransport:
    """Return the transport of a client of redis.asyncio."""
    if _is_cluster(client, asyncio=True):
        from redis_counters.drivers.redis_py.cluster_asyncio import ClusterAsyncio

        return ClusterAsyncio(client)
    return SingleAsyncio(client)


def _is_cluster(client: Any, *, asyncio: bool) -> bool:
    """True for a RedisCluster, False for a client of one server. Raises UsageError for what is no client of this face.

    A pipeline of a cluster is a RedisCluster too, and no client.
    """
    is_cluster = hasattr(client, "nodes_manager") and hasattr(client, "get_primaries")
    is_cluster = is_cluster and not hasattr(client, "command_stack")
    pool = None if is_cluster else pool_of(client)
    if is_asyncio(client) != asyncio:
        face, other = ("redis.asyncio", "redis_counters.asyncio") if not asyncio else ("redis", "redis_counters")
        raise UsageError(f"client is one of {face}: use {other}.Counters with it")
    check_encoding(client.get_connection_kwargs() if is_cluster else getattr(pool, "connection_kwargs", {}))
    return is_cluster
