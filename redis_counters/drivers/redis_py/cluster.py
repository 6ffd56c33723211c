"""A Redis Cluster as a transport of the blocking driver: a lane has a connection per primary, and knows the slots.

Which primary has which slots redis-py finds out; it is asked anew when a connection breaks, and when a server says that
a slot has moved. A command that went to the wrong server was not applied, and is sent to the right one.
A primary that is gone takes its own commands with it, and nobody else's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any, cast

from redis import exceptions
from redis.cluster import PRIMARY, ClusterNode

from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.pacing import again_options
from redis_counters.drivers.redis_py import after_fork, compat
from redis_counters.drivers.redis_py.clients import KnownConnections, disconnect_idle
from redis_counters.drivers.redis_py.errands import Errand, TooLate
from redis_counters.drivers.redis_py.errors import translate
from redis_counters.drivers.redis_py.hash_slots import BROKEN, REST, Address, HashSlots, primaries_in
from redis_counters.drivers.redis_py.in_flight import ASKING, EVERYWHERE, InFlight, Sent
from redis_counters.drivers.redis_py.lanes import REPLY_TIMEOUT, BlockingLane, Exchanging
from redis_counters.drivers.redis_py.partial_replies import PartialReplies
from redis_counters.errors import CounterError, Unavailable
from redis_counters.protocol.wire.answers import all_answered
from redis_counters.protocol.wire.commands import Command, NoAnswer


class Cluster(HashSlots):
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
        self._errand: Errand[Any] | None = None  # which looks up the slots, for all who wait for it

    def reply_timeout(self) -> float | None:
        limit: float | None = self._options.get("socket_timeout")
        return limit

    def lane(self, deadline: Deadline | None = None, *, patient: bool = True) -> ClusterLane:
        return ClusterLane(self, deadline, patient=patient)

    def ask(self, commands: Sequence[Command], deadline: Deadline | None = None) -> list[object]:
        return all_answered(self.ask_each(commands, deadline))

    def ask_each(self, commands: Sequence[Command], deadline: Deadline | None = None) -> list[object]:
        from tenacity import Retrying

        asked = PartialReplies(commands)
        deadline = deadline or Deadline()
        try:
            for attempt in Retrying(**again_options()):
                with attempt:
                    asked.take(self._ask(asked.left(), deadline))
                    self.stale = self.stale or asked.error is not None
                    asked.check()
        except Unavailable:
            if not asked.answers:
                raise
        return asked.answers

    def _ask(self, commands: Sequence[Command], deadline: Deadline) -> list[object]:
        try:
            with self.lane(deadline) as lane:
                return lane.exchange(commands, _nothing, REPLY_TIMEOUT)
        except BROKEN as error:
            raise translate(error) or error from error

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
            self.look_at = monotonic() + REST
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
        return primaries_in(self.look_up(deadline or Deadline(REPLY_TIMEOUT)))

    def lane_to(self, address: Address, deadline: Deadline | None = None) -> BlockingLane:
        """Return a lane to one server."""
        client = self.look_up(deadline or Deadline(REPLY_TIMEOUT))
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


def _nothing() -> None:
    """Nothing is to be done while an answer is awaited."""


class ClusterLane(Exchanging):
    """One connection per primary that is needed. Leaving it with unread answers closes theirs."""

    def __init__(self, cluster: Cluster, deadline: Deadline | None, *, patient: bool) -> None:
        self._cluster = cluster
        self._deadline = deadline
        self.patient = patient
        self._lanes: dict[Address, BlockingLane] = {}
        self._under_way = InFlight(cluster)

    def __enter__(self) -> ClusterLane:
        self._cluster.look_up(self._until())
        return self

    def _until(self) -> Deadline:
        return self._deadline or Deadline(REPLY_TIMEOUT)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        lanes, self._lanes = self._lanes, {}
        stack = ExitStack()
        for lane in lanes.values():
            stack.push(lane)
        stack.__exit__(kind, error, tb)

    def send(self, command: Command, text: bool) -> None:
        sent = self._under_way.new(command, text)
        try:
            if command.plain in EVERYWHERE:
                self._send_everywhere(sent)
            else:
                self._send_to(self._cluster.address_of(command, self._until()), sent)
        except CounterError as error:
            sent.answer = NoAnswer(error)

    def _send_everywhere(self, sent: Sent) -> None:
        """To every server that was written to in this lane, and to none if one of them has broken off."""
        self._under_way.check()
        for address in list(self._lanes) or self._cluster.primaries(self._until()):
            part = Sent(sent.command, sent.text)
            sent.parts.append(part)
            self._send_to(address, part)

    def on_new_connection(self) -> bool:
        new = [lane.on_new_connection() for lane in self._lanes.values()]  # each is asked
        return self._under_way.was_redirected() or any(new)

    def receive(self, meanwhile: Callable[[], None], every: float) -> object:
        sent = self._under_way.next_wanted()
        while (address := sent.awaits()) is not None:
            self._receive_from(address, meanwhile, every)
        return sent.whole_answer()

    def _send_to(self, address: Address, sent: Sent, *, asking: bool = False) -> None:
        if not self._under_way.aim(address, sent):
            return
        try:
            lane = self._lanes.get(address)
            if lane is None:
                lane = self._cluster.lane_to(address, self._deadline)
                lane.patient = self.patient and not self._lanes
                self._lanes[address] = lane.__enter__()
            if asking:
                lane.send(ASKING, False)
                self._under_way.sending(address, Sent(ASKING, False))
            self._under_way.sending(address, sent)
            lane.send(sent.command, sent.text)
        except (CounterError, *BROKEN) as error:
            self._lose(address, error)
            self._under_way.aim(address, sent)  # so it has its answer

    def _receive_from(self, address: Address, meanwhile: Callable[[], None], every: float) -> None:
        """The oldest command at this server has its answer, or is at another one now."""
        try:
            answer = self._lanes[address].receive(meanwhile, every)
        except BROKEN as error:
            self._lose(address, error)
            return
        redirected = self._under_way.answered(address, answer)
        if redirected is not None:
            sent, elsewhere = redirected
            self._send_to(self._cluster.follow(elsewhere), sent, asking=not elsewhere.for_good)

    def _lose(self, address: Address, error: BaseException) -> None:
        """The server's commands have no answer, and nothing more is sent to it in this lane."""
        self._under_way.lose(address, error)
        lane = self._lanes.pop(address, None)
        if lane is not None:
            with suppress(*BROKEN):
                lane.__exit__(type(error), error, None)
