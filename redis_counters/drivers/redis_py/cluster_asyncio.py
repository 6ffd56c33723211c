"""A Redis Cluster as a transport of the asyncio driver; as `cluster`, awaited.

redis.asyncio finds out which primary has which slots. Its nodes have no pool to take a connection from, so there is one
per primary here, made with the node's own options, and closed with the client.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from redis import exceptions
from redis.asyncio import ConnectionPool, Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.cluster import PRIMARY

from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.redis_py import after_fork, compat
from redis_counters.drivers.redis_py.cancelling import AWAITED_BROKEN, seen
from redis_counters.drivers.redis_py.clients import KnownConnections
from redis_counters.drivers.redis_py.cluster_lane_asyncio import AwaitedClusterAsking, ClusterLaneAsyncio
from redis_counters.drivers.redis_py.hash_slots import LOOK_REST_S, Address, primaries_in
from redis_counters.drivers.redis_py.lanes import REPLY_TIMEOUT_S, AsyncioLane
from redis_counters.protocol.wire.commands import Command


class ClusterAsyncio(AwaitedClusterAsking):
    """The primaries of a cluster, by a client of redis.asyncio, which connects when it is first used."""

    grouped = True
    _client: RedisCluster

    def __init__(self, client: RedisCluster) -> None:
        super().__init__(client)
        self._known = KnownConnections()
        self._named = dict(client.nodes_manager.startup_nodes)  # they may lead elsewhere by now, which redis-py forgets
        self._lock = asyncio.Lock()
        self._nodes: dict[Address, Redis] = {}
        self._asked = False  # where the slots are, or were
        self._looking: asyncio.Task[RedisCluster] | None = None  # asks, for all tasks that wait for it
        self._unfinished = False  # then the client takes itself for closed, whatever connections it has

    def reply_timeout(self) -> float | None:
        limit: float | None = self._client.get_connection_kwargs().get("socket_timeout")
        return limit

    def lane(self, deadline: Deadline | None = None, *, patient: bool = True) -> ClusterLaneAsyncio:
        return ClusterLaneAsyncio(self, deadline, patient=patient)

    async def look_up(self, deadline: Deadline) -> RedisCluster:
        """Return the client, which knows the slots; if that may have changed, it has asked again.

        Where that takes too long, one that knows older ones has to do.
        """
        if self._asked and not self.may_look() and not compat.is_uninitialized(self._client):
            return self._client
        looking = self._looking
        if looking is None or looking.done():
            looking = self._looking = asyncio.ensure_future(self._look_up())
            looking.add_done_callback(seen)
        until = self.waits_for_look(deadline) if self._asked else deadline
        await asyncio.wait(
            {looking}, timeout=until.left()
        )  # a task that is cancelled here takes nothing from the others
        if looking.done() and not looking.cancelled():
            return looking.result()
        if not self._asked:
            raise exceptions.TimeoutError(deadline.words)
        self.look_at = monotonic() + LOOK_REST_S
        return self._client

    async def _look_up(self) -> RedisCluster:
        async with self._lock:
            before = self._nodes_of_client()
            await self._initialize()
            if self.stale:
                self.stale = False
                try:
                    await self._ask_for_slots()
                except BaseException:
                    self.stale = True
                    raise
                self._moved.clear()
            # redis-py closes these, too, but later, and without waiting: the event loop may be closed by then.
            left = before.keys() - self._nodes_of_client().keys()
            for number in left:
                with suppress(*AWAITED_BROKEN):
                    await before[number].disconnect()
            self._asked = True
        return self._client

    async def _initialize(self) -> None:
        """The client knows the slots, the first time. It may lack what it has to ask the first primary for."""
        if self._unfinished:
            return
        try:
            await self._client.initialize()
        except AWAITED_BROKEN:
            if not self._client.nodes_manager.slots_cache:
                raise
            self._unfinished = True  # commands, which only `execute_command` needs

    def _nodes_of_client(self) -> dict[int, ClusterNode]:
        """Return the nodes that the client has connections to, each once: two of the same name are equal."""
        manager = self._client.nodes_manager
        return {id(node): node for node in (*manager.nodes_cache.values(), *manager.startup_nodes.values())}

    async def _ask_for_slots(self) -> None:
        manager = self._client.nodes_manager
        try:
            await manager.initialize()
        except exceptions.RedisClusterException:
            manager.startup_nodes = self._named | manager.startup_nodes
            await manager.initialize()

    async def address_of(self, command: Command, deadline: Deadline) -> Address:
        """Return the primary that the command belongs to. Raises Unavailable if its slot has none."""
        return self.address_in(await self.look_up(deadline), command)

    async def primaries(self, deadline: Deadline | None = None) -> list[Address]:
        """Return where all primaries are."""
        return primaries_in(await self.look_up(deadline or Deadline(REPLY_TIMEOUT_S)))

    async def lane_to(self, address: Address, deadline: Deadline | None = None) -> AsyncioLane:
        """Return a lane to one server."""
        until = deadline or Deadline(REPLY_TIMEOUT_S)
        client = await self.look_up(until) if address not in self._nodes else None
        if client is not None and address not in self._nodes:  # another task may have been here meanwhile
            node: Any = client.get_node(host=address[0], port=address[1])
            if node is None:  # it has no slot yet, and the first is on its way there
                options: dict[str, Any] = client.get_connection_kwargs()
                node = ClusterNode(*address, PRIMARY, **options)
            pool = ConnectionPool(connection_class=node.connection_class, **_options(node))
            self._nodes[address] = Redis(connection_pool=pool)
        return AsyncioLane(self._nodes[address], self._known, deadline)

    def drop_connections(self, *, of_parent: bool) -> None:
        self._lock = asyncio.Lock()
        for client in self._nodes.values():
            after_fork.drop_connections(client, of_parent=of_parent)
        self._nodes.clear()
        self._asked = False
        self._looking = None
        after_fork.drop_connections_of_nodes(self._client, of_parent=of_parent)
        self.stale = True

    async def disconnect(self) -> None:
        await self.end()
        await self._client.aclose()

    async def end(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        for address, client in list(self._nodes.items()):
            await client.connection_pool.disconnect()
            self._nodes.pop(address, None)  # not before: a task that is cancelled here may come again
        if self._unfinished:
            for node in self._nodes_of_client().values():
                await node.disconnect()


def _options(node: Any) -> dict[str, Any]:
    """Return what a node makes its connections with."""
    options = dict(node.connection_kwargs)
    for only_of_nodes in ("max_connections", "response_callbacks"):
        options.pop(only_of_nodes, None)
    return options
