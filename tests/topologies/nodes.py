"""One server of a Redis Cluster, and what it says of the others."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.servers import HOST, Kind, RealServer

BUS = 10_000  # the nodes speak to each other at the port of the clients and this
NODE_TIMEOUT = 1500  # milliseconds of silence after which a node is taken for gone; a fail-over takes about twice that
TRIES = 5  # at ports that were free a moment ago
# Below those that systems give to outgoing connections: a node that was gone for a while finds its ports still free.
_PORTS = range(12_000, 22_000)


def free_ports(count: int) -> list[int]:
    """Return ports that were free a moment ago, as were those of the cluster bus that belong to them."""
    found: list[int] = []
    while len(found) < count:
        port = secrets.choice(_PORTS)
        if port not in found and _free(port) and _free(port + BUS):
            found.append(port)
    return found


def _free(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as a server does
        try:
            listener.bind((HOST, port))
        except OSError:
            return False
        return True


@dataclass(frozen=True)
class View:
    """What one node says of the cluster; nodes by their ids."""

    ok: bool
    owners: tuple[tuple[int, int, str], ...]  # the first and the last of some hash slots, and whose they are
    followed: dict[str, str]  # whom each follower follows
    reached: frozenset[str]  # nodes that it is connected to and takes for alive, itself included

    def owner(self, slot: int) -> str:
        return next((owner for first, last, owner in self.owners if first <= slot <= last), "nobody")


class Node(RealServer):
    """One server of a cluster. What it knows of the cluster outlives it, so a restarted one comes back to its place."""

    def __init__(self, kind: Kind, port: int, *arguments: str) -> None:
        super().__init__(kind, *arguments)
        self.id = secrets.token_hex(20)
        self.port = port
        self.paused = False
        self._asking: Any = None  # redis.Redis, whose execute_command has no types

    def __repr__(self) -> str:
        state = "paused" if self.paused else "down" if self._process is None else "running"
        return f"<{self.kind.name} at {self.port}, {state}, {self.id}>"

    @property
    def running(self) -> bool:
        """False after it was killed, terminated or paused."""
        return self._process is not None and not self.paused

    def ask(self, *command: Any) -> Any:
        """Return what this node itself answers. Raises: redis.RedisError, MOVED and ASK among them."""
        if self._asking is None:
            self._asking = self._own_client()
        return self._asking.execute_command(*command)

    def view(self) -> View:
        """Return what it says of the cluster. Raises: redis.RedisError if it says nothing."""
        owners: list[tuple[int, int, str]] = []
        followed: dict[str, str] = {}
        reached = set()
        for line in self.ask("CLUSTER", "NODES").decode().splitlines():
            node, _, flags, primary, _, _, _, link, *slots = line.split()
            if primary != "-":
                followed[node] = primary
            # fail? is this node's own suspicion, fail what the primaries agreed on.
            if link == "connected" and not {"fail", "fail?", "handshake", "noaddr"} & set(flags.split(",")):
                reached.add(node)
            for some in slots:
                if not some.startswith("["):  # [slot->-node]: on its way
                    first, _, last = some.partition("-")
                    owners.append((int(first), int(last or first), node))
        state = self.ask("CLUSTER", "INFO").decode()
        return View("cluster_state:ok" in state, tuple(sorted(owners)), followed, frozenset(reached))

    def follows_up_to_date(self) -> bool:
        """True for a primary, and for a follower whose link to its primary is up."""
        found = self.ask("INFO", "replication")
        return bool(found["role"] == "master" or found["master_link_status"] == "up")

    def commandstats(self) -> dict[str, int]:
        """Return how often each command was called since `Cluster.reset_stats`, by its lower-case name."""
        found = self.ask("INFO", "commandstats")
        return {key.removeprefix("cmdstat_").lower(): int(value["calls"]) for key, value in found.items()}

    def log(self) -> str:
        """Return how its log ends; a log is gone with its process."""
        return f"{self!r}\n{'' if self._process is None else self._process.tail(30)}"

    def pause(self) -> None:
        super().pause()
        self.paused = True

    def resume(self) -> None:
        super().resume()
        self.paused = False

    def kill(self) -> None:
        super().kill()
        self.paused = False

    def disconnect(self) -> None:
        super().disconnect()
        if self._asking is not None:
            self._asking.close()
            self._asking = None

    def knows(self, lines: Iterable[str]) -> None:
        """This is what the node knows of the cluster when it starts: lines as CLUSTER NODES prints them."""
        (self._directory / "nodes.conf").write_text("\n".join(lines) + "\n")

    def _command_line(self) -> list[str]:
        return [
            *super()._command_line(),
            *("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"),
            *("--cluster-node-timeout", str(NODE_TIMEOUT)),
            # A follower takes over, however long ago it heard from its primary.
            *("--cluster-replica-validity-factor", "0"),
            *("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"),
        ]
