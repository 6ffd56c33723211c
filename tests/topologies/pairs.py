"""A primary with a follower, which are told what to be by the test."""

from __future__ import annotations

from typing import Any

from tests.servers import NOWHERE, Kind, RealServer
from tests.waiting import until


def replication(server: RealServer) -> dict[str, Any]:
    found: dict[str, Any] = server.client().info("replication")
    return found


class Pair:
    """A primary and a follower that has all of it. ``arguments`` go to both (``--appendonly yes``)."""

    def __init__(self, kind: Kind, *arguments: str) -> None:
        self.servers: list[RealServer] = []
        try:
            for _ in range(2):
                # Else the first copy to a follower waits 5 seconds for more of them.
                self.servers.append(RealServer.start(kind, "--repl-diskless-sync-delay", "0", *arguments))
            self.primary, self.follower = self.servers
            self.follow()
        except BaseException:
            self.stop()
            raise

    def follow(self) -> None:
        """The follower follows, and has all that the primary had at the call."""
        self._replicaof(self.follower, self.primary.host, self.primary.port)
        until(lambda: replication(self.follower)["master_link_status"] == "up", "the follower follows")
        self.caught_up()

    def caught_up(self) -> None:
        """The follower has all that the primary had at the call."""
        # Something has to be told: a new link is "up" before anything goes over it.
        self.primary.client().publish("here", "")
        offset = replication(self.primary)["master_repl_offset"]
        until(lambda: bool(replication(self.follower)["slave_repl_offset"] >= offset), "the follower has caught up")

    def pause_replication(self) -> None:
        """The follower stays as it is, and knows nothing of what the primary does from now on."""
        self._replicaof(self.follower, self.primary.host, NOWHERE)
        until(lambda: replication(self.primary)["connected_slaves"] == 0, "the primary has no follower")

    def promote(self) -> None:
        """The follower is the primary, the primary (if it runs) the follower; connections to it stay open."""
        self._replicaof(self.follower, "NO", "ONE")
        self.primary, self.follower = self.follower, self.primary

    def _replicaof(self, server: RealServer, host: str, port: int | str) -> None:
        client: Any = server.client()
        client.execute_command("REPLICAOF", host, port)

    def stop(self) -> None:
        """Both are gone. Idempotent."""
        for server in self.servers:
            server.stop()
