"""A Redis Cluster: primaries that share the hash slots, and followers that take over from them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import redis
from redis.cluster import ClusterNode
from redis.crc import key_slot

from tests.servers import Kind
from tests.topologies.nodes import BUS, TRIES, Node, View, free_ports
from tests.waiting import until

SLOTS = 16_384


class Cluster:
    """A running cluster; each primary has as many followers as asked for. ``arguments`` go to every node.

    The nodes know of each other from the start (nodes.conf), which saves the seconds of CLUSTER MEET; what is left is
    that a primary takes no writes for two seconds after its start.
    """

    def __init__(self, kind: Kind, *arguments: str, primaries: int = 3, followers: int = 0) -> None:
        self.kind = kind
        self.nodes: list[Node] = []
        self._clients: list[Any] = []
        try:
            for _ in range(TRIES):
                if self._launched(arguments, primaries, followers):
                    break
            else:
                raise RuntimeError(f"{kind.name} found no free ports for a cluster")
            self.layout = self.agreed()
        except BaseException:
            self.stop()
            raise

    def _launched(self, arguments: tuple[str, ...], primaries: int, followers: int) -> bool:
        """All nodes are there. False, and none is, if a port was taken."""
        ports = free_ports(primaries * (1 + followers))
        self.nodes = [Node(self.kind, port, *arguments) for port in ports]
        lines: dict[Node, tuple[str, str]] = {}  # what stands before and after "myself"
        for n, node in enumerate(self.nodes):
            first = n % primaries  # the primaries come first, and each has its followers behind it
            place = f"{node.id} {node.host}:{node.port}@{node.port + BUS}"
            if n < primaries:
                slots = f"{SLOTS * n // primaries}-{SLOTS * (n + 1) // primaries - 1}"
                lines[node] = place, f"master - 0 0 {n + 1} connected {slots}"
            else:
                lines[node] = place, f"slave {self.nodes[first].id} 0 0 {first + 1} connected"
        for node in self.nodes:
            told = [f"{place} {'myself,' if node is other else ''}{part}" for other, (place, part) in lines.items()]
            node.knows([*told, f"vars currentEpoch {primaries} lastVoteEpoch 0"])
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            launched = list(pool.map(Node._launch, self.nodes))
        if not all(launched):
            self._stop_nodes()
        return all(launched)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where a client may ask for the others: every node."""
        return [(node.host, node.port) for node in self.nodes]

    @property
    def url(self) -> str:
        return f"redis+cluster://{','.join(f'{host}:{port}' for host, port in self.addresses)}"

    def client(self, **options: Any) -> Any:
        """Return a RedisCluster client that `disconnect` and `stop` close."""
        cluster: Any = redis.RedisCluster  # redis-py leaves some of it without types
        node: Any = ClusterNode
        client = cluster(startup_nodes=[node(*address) for address in self.addresses], **options)
        self._clients.append(client)
        return client

    # Who is what.

    def running(self) -> list[Node]:
        return [node for node in self.nodes if node.running]

    def primaries(self) -> list[Node]:
        """Return those that have hash slots, in their order, whether they run or not."""
        owners = dict.fromkeys(owner for _, _, owner in self._view().owners)
        return [self._named(owner) for owner in owners]

    def followers_of(self, primary: Node) -> list[Node]:
        return [self._named(node) for node, followed in self._view().followed.items() if followed == primary.id]

    def node_of(self, key: str | bytes | int) -> Node:
        """Return the primary of a key, or of a hash slot if that is a number."""
        return self._named(self._view().owner(slot_of(key)))

    def _view(self) -> View:
        return self.running()[0].view()

    def _named(self, id: str) -> Node:
        return next(node for node in self.nodes if node.id == id)

    # Waiting until it is so.

    def agreed(self) -> View:
        """All nodes that run are fit, reach each other, and say the same of the others; returns what they say."""
        self.until(self._agree, "all nodes of the cluster agree")
        self.layout = self._view()
        return self.layout

    def _agree(self) -> bool:
        nodes = self.running()
        views = [node.view() for node in nodes]
        here = {node.id for node in nodes}
        return (
            all(view.ok and view.reached == here for view in views)
            and len({view.owners for view in views}) == 1
            and all(view.followed == views[0].followed for view in views)
            and all(node.follows_up_to_date() for node in nodes)
        )

    def wait_for_failover(self, of: Node) -> Node:
        """A follower has taken over the hash slots that ``of`` had when all last agreed, and all say so; returns it."""
        slot = next(first for first, _, owner in self.layout.owners if owner == of.id)
        others = [node for node in self.nodes if node is not of]
        self.until(lambda: all(node.view().owner(slot) != of.id for node in others if node.running), "a fail-over")
        self.agreed()
        return self.node_of(slot)

    def until(self, done: Callable[[], object], what: str) -> None:
        """As `tests.waiting.until`; a node that does not answer yet is waited for, and a failure shows all logs."""

        def answered() -> object:
            try:
                return done()
            except redis.RedisError:
                return False

        try:
            until(answered, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from None

    def logs(self) -> str:
        return "\n".join(node.log() for node in self.nodes)

    # What may happen to it.

    def fail_over(self, primary: Node) -> Node:
        """Ask a follower to take over from its healthy primary, which becomes its follower; returns the new one."""
        self.followers_of(primary)[0].ask("CLUSTER", "FAILOVER")
        return self.wait_for_failover(primary)

    def caught_up(self, primary: Node) -> None:
        """Its followers have all that it had at the call."""
        offset = primary.ask("INFO", "replication")["master_repl_offset"]
        followers = self.followers_of(primary)
        self.until(
            lambda: all(each.ask("INFO", "replication")["slave_repl_offset"] >= offset for each in followers),
            "followers have caught up",
        )

    def add_primary(self) -> Node:
        """Return a server that has joined as a primary, without a hash slot."""
        while True:
            (port,) = free_ports(1)
            node = Node(self.kind, port)
            if node._launch():
                break
        first = self.running()[0]
        node.ask("CLUSTER", "MEET", first.host, first.port)
        node.id = node.ask("CLUSTER", "MYID").decode()
        self.nodes.append(node)
        self.agreed()
        return node

    def move_slot(self, slot: int, target: Node) -> None:
        """The hash slot and all its keys are at another primary, and all nodes know."""
        moving = Moving(self, slot, target)
        moving.finish()

    # Between tests.

    def flushall(self) -> None:
        for node in self.primaries():
            node.ask("FLUSHALL")

    def commandstats(self) -> dict[Node, dict[str, int]]:
        """Return how often each node was asked for each command since `reset_stats`."""
        return {node: node.commandstats() for node in self.running()}

    def reset_stats(self) -> None:
        for node in self.running():
            node.ask("CONFIG", "RESETSTAT")

    def disconnect(self) -> None:
        """The clients handed out are closed."""
        while self._clients:
            self._clients.pop().close()
        for node in self.nodes:
            node.disconnect()

    def stop(self) -> None:
        """Clients are closed, and every node is gone. Idempotent."""
        self.disconnect()
        self._stop_nodes()

    def _stop_nodes(self) -> None:
        for node in self.nodes:
            node.stop()


class Moving:
    """A hash slot on its way to another primary, step by step.

    From now on the old primary answers for the keys that it has, and ASK for others; the new one answers whoever says
    ASKING, TRYAGAIN for keys of which it has some; after `finish` the old one answers MOVED.
    """

    def __init__(self, cluster: Cluster, slot: int, target: Node) -> None:
        self.cluster = cluster
        self.slot = slot
        self.source, self.target = cluster.node_of(slot), target
        assert self.source is not target
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", self.source.id)
        self.source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)

    def keys(self, count: int = 1_000_000) -> list[bytes]:
        """Return keys that are still at the old primary."""
        found: list[bytes] = self.source.ask("CLUSTER", "GETKEYSINSLOT", self.slot, count)
        return found

    def move(self, *keys: str | bytes) -> None:
        """These keys are at the new primary."""
        self.source.ask("MIGRATE", self.target.host, self.target.port, "", 0, 10_000, "KEYS", *keys)

    def finish(self) -> None:
        """What was left is moved too; the slot is the new primary's, and all nodes know."""
        while keys := self.keys(100):
            self.move(*keys)
        # The new one first: else the slot is nobody's if the old one forgets it and is lost.
        others = [node for node in self.cluster.primaries() if node not in (self.target, self.source)]
        for node in (self.target, self.source, *others):
            node.ask("CLUSTER", "SETSLOT", self.slot, "NODE", self.target.id)
        self.cluster.agreed()


def slot_of(key: str | bytes | int) -> int:
    """Return the hash slot of a key; a number is one already."""
    if isinstance(key, int):
        return key
    slot: int = key_slot(key.encode() if isinstance(key, str) else key)
    return slot
