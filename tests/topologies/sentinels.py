"""Sentinels that watch a pair and decide which of the two is the primary."""

from __future__ import annotations

import secrets
from functools import partial
from typing import Any

from tests.servers import Kind, RealServer
from tests.topologies.nodes import TRIES, free_ports
from tests.topologies.pairs import Pair, replication
from tests.waiting import until

WATCHED = "counted"  # the name that the Sentinels know the primary by
DOWN_AFTER = 500  # milliseconds of silence after which a Sentinel takes a server for gone


class Sentinel(RealServer):
    """One Sentinel of the given ones; they know of each other from the start, which saves them seconds."""

    def __init__(self, kind: Kind, pair: Pair, quorum: int) -> None:
        super().__init__(kind)
        self.id = secrets.token_hex(20)
        self.pair = pair
        self.quorum = quorum
        self.peers: list[Sentinel] = []

    def _command_line(self) -> list[str]:
        primary, follower = self.pair.primary, self.pair.follower
        lines = [
            f"bind {self.host}",
            f"port {self.port}",
            f"dir {self._directory}",
            f"sentinel myid {self.id}",
            f"sentinel monitor {WATCHED} {primary.host} {primary.port} {self.quorum}",
            f"sentinel down-after-milliseconds {WATCHED} {DOWN_AFTER}",
            f"sentinel failover-timeout {WATCHED} 1500",
            f"sentinel known-replica {WATCHED} {follower.host} {follower.port}",
            *(f"sentinel known-sentinel {WATCHED} {peer.host} {peer.port} {peer.id}" for peer in self.peers),
        ]
        path = self._directory / "sentinel.conf"
        path.write_text("\n".join(lines) + "\n")
        return [str(path), "--sentinel"]


class Sentinels:
    """Three Sentinels that watch a pair; two of them have to agree."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.three: list[Sentinel] = []
        try:
            if not any(self._launched() for _ in range(TRIES)):
                raise RuntimeError(f"{pair.primary.kind.name} found no free ports for Sentinels")
            for sentinel in self.three:
                until(partial(self._sees_all, sentinel), "a Sentinel sees the pair and the other Sentinels")
        except BaseException:
            self.stop()
            raise

    def _launched(self) -> bool:
        """All three are there. False, and none is, if a port was taken."""
        self.three = [Sentinel(self.pair.primary.kind, self.pair, quorum=2) for _ in range(3)]
        for sentinel, port in zip(self.three, free_ports(3), strict=True):
            sentinel.port = port
            sentinel.peers = [peer for peer in self.three if peer is not sentinel]
        launched = all(sentinel._launch() for sentinel in self.three)
        if not launched:
            self.stop()
        return launched

    def _sees_all(self, sentinel: Sentinel) -> bool:
        state = self._primary(sentinel)
        followers: Any = sentinel.client().sentinel_slaves(WATCHED)
        up = [each for each in followers if not each["is_sdown"] and each.get("master-link-status") == "ok"]
        return state["num-other-sentinels"] == 2 and len(up) == 1 and not state["is_sdown"]

    def _primary(self, sentinel: Sentinel) -> Any:
        """Return what a Sentinel says of the primary, as clients ask for it."""
        found: Any = sentinel.client().sentinel_masters()
        return found[WATCHED]

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """What `redis.sentinel.Sentinel` wants to be told."""
        return [(sentinel.host, sentinel.port) for sentinel in self.three]

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(f'{host}:{port}' for host, port in self.addresses)}/{WATCHED}"

    def fail_over(self) -> None:
        """Ask for a fail-over of the healthy pair, and wait until it is over: the two have changed their parts."""
        client: Any = self.three[0].client()
        client.execute_command("SENTINEL", "FAILOVER", WATCHED)
        self.wait()

    def wait(self) -> None:
        """The follower has become the primary, and every Sentinel says so. ``pair`` says so too afterwards."""
        for sentinel in self.three:
            until(partial(self._has_promoted, sentinel), "the Sentinels have promoted the follower")
        until(lambda: replication(self.pair.follower)["role"] == "master", "the follower is the primary")
        self.pair.primary, self.pair.follower = self.pair.follower, self.pair.primary

    def demoted(self) -> None:
        """The old primary follows the new one, if it runs. Sentinels take ten seconds to ask it to."""
        until(lambda: replication(self.pair.follower)["role"] == "slave", "the old primary follows")

    def _has_promoted(self, sentinel: Sentinel) -> bool:
        return bool(self._primary(sentinel)["port"] == self.pair.follower.port)

    def stop(self) -> None:
        """All three are gone. Idempotent."""
        for sentinel in self.three:
            sentinel.stop()
