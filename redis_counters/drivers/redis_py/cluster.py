"""A Redis Cluster as a transport of the blocking driver: a lane has a connection per primary, and knows the slots.

Which primary has which slots redis-py finds out; it is asked anew when a connection breaks, and when a server says that
a slot has moved. A command that went to the wrong server was not applied, and is sent to the right one.
A primary that is gone takes its own commands with it, and no others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

from redis import exceptions
from redis.cluster import PRIMARY, ClusterNode

from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.redis_py import after_fork, compat
from redis_counters.drivers.redis_py.clients import KnownConnections, disconnect_idle
from redis_counters.drivers.redis_py.cluster_lane import ClusterAsking, ClusterLane
from redis_counters.drivers.redis_py.errands import Errand, TooLate
from redis_counters.drivers.redis_py.hash_slots import LOOK_REST_S, Address, primaries_in
from redis_counters.drivers.redis_py.lanes import REPLY_TIMEOUT_S, BlockingLane
from redis_counters.drivers.transport import Meanwhile
from redis_counters.protocol.wire.commands import Command


class Cluster(ClusterAsking):
    """The primaries of a cluster. ``open`` returns the client; it may have to connect for that."""

    grouped = True

    def __init__(
        self, open_client: Callable[[], Any], options: dict[str, Any], addresses: Sequence[Address] = ()
    ) -> None:
        super().__init__(None)
        self._known = KnownConnections()
        self._open = open_client
        self._addresses = addresses  # that the caller has named: they may lead elsewhere by now, which redis-py forgets
        self._options = options
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.RLock()  # a signal handler may ask, too
        self._looking = threading.RLock()
        self._errand: Errand[Any] | None = None  # looks up the slots, for all callers that wait for it

    def reply_timeout(self) -> float | None:
        limit: float | None = self._options.get("socket_timeout")
        return limit

    def lane(
        self, deadline: Deadline | None = None, *, patient: bool = True, meanwhile: Meanwhile | None = None
    ) -> ClusterLane:
        return ClusterLane(self, deadline, patient=patient, meanwhile=meanwhile)

    def look_up(self, deadline: Deadline) -> Any:
        """Return the client, which knows the slots; if that may have changed, it has asked again.

        Where that takes too long, one that knows older ones has to do. Raises what redis-py raises.
        """
        client = self._client
        if client is not None and not self.may_look():
            return client
        with self._lock:
            errand = self._errand
            if errand is None or errand.over:
                errand = self._errand = Errand(self._look_up)
        try:
            return errand.result(deadline if client is None else self.waits_for_look(deadline))
        except TooLate:
            if client is None:
                raise
            self.look_at = monotonic() + LOOK_REST_S
            return client

    def _look_up(self) -> Any:
        with self._looking:
            if self._client is None:
                self._client = self._open()
            elif self.stale:
                self.stale = False
                try:
                    self._ask_for_slots()
                except BaseException:
                    self.stale = True
                    raise
                self._moved.clear()
            return self._client

    def _ask_for_slots(self) -> None:
        try:
            compat.ask_for_slots(self._client)
        except exceptions.RedisClusterException:
            if not self._addresses:
                raise
            manager, make_node = self._client.nodes_manager, cast(Any, ClusterNode)
            named = [make_node(*address) for address in self._addresses]
            manager.startup_nodes = {node.name: node for node in named} | manager.startup_nodes
            compat.ask_for_slots(self._client)

    def address_of(self, command: Command, deadline: Deadline) -> Address:
        """Return the primary that the command belongs to. Raises Unavailable if its slot has none."""
        return self.address_in(self.look_up(deadline), command)

    def primaries(self, deadline: Deadline | None = None) -> list[Address]:
        """Return where all primaries are."""
        return primaries_in(self.look_up(deadline or Deadline(REPLY_TIMEOUT_S)))

    def lane_to(self, address: Address, deadline: Deadline | None = None) -> BlockingLane:
        """Return a lane to one server."""
        client = self.look_up(deadline or Deadline(REPLY_TIMEOUT_S))
        node: Any = client.get_node(host=address[0], port=address[1])
        if node is None:  # it has no slot yet, and the first is on its way there
            make_node: Any = ClusterNode
            node = make_node(*address, PRIMARY)
            client.nodes_manager.nodes_cache[node.name] = node  # as redis-py does, which will close it
        return BlockingLane(client.get_redis_connection(node), self._known, deadline)

    def disconnect_idle(self) -> None:
        if self._client is not None:
            for node in self._client.get_nodes():
                if node.redis_connection is not None:
                    disconnect_idle(node.redis_connection.connection_pool)

    def begin_in_child(self) -> None:
        self._begin()
        if self._client is not None:
            after_fork.renew_locks(self._client)
            self.stale = True
