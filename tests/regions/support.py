"""Regions for tests: a server each, with clients that count in it, and exchanges between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import redis

from redis_counters import Counters, Exchange
from tests.servers import Kind, RealServer, kinds
from tests.waiting import until

NAMES = ("eu", "us", "ap")


class Regions:
    """Servers by the names of regions, and a client of each. What was counted is kept, as it should be."""

    def __init__(self, servers: dict[str, RealServer], urls: dict[str, str] | None = None) -> None:
        self.servers = servers
        self.urls = urls or {name: server.url for name, server in servers.items()}  # that the exchange uses
        self.counters = {name: Counters.from_url(server.url, flush_interval=0.02) for name, server in servers.items()}
        self.truth: dict[str, int] = {}

    def incr(self, region: str, name: str, amount: int = 1) -> None:
        """Counted in a region, and in the truth."""
        self.counters[region].add(name, amount)
        self.truth[name] = self.truth.get(name, 0) + amount

    def flush(self) -> None:
        for counters in self.counters.values():
            counters.flush()

    def read(self, name: str) -> dict[str, int]:
        """Return the value in each region."""
        return {region: int(counters.get(name, max_age=0)) for region, counters in self.counters.items()}

    def wrong(self) -> list[tuple[str, str, int, int]]:
        """Return (region, name, value, truth) where they differ."""
        names = list(self.truth)
        found = []
        for region, counters in self.counters.items():
            values = counters.get_many(names, max_age=0)
            found += [(region, n, int(values[n]), self.truth[n]) for n in names if values[n] != self.truth[n]]
        return found

    def equal(self, what: str = "all regions have what was counted") -> None:
        """All regions have what was counted, sooner or later. Raises AssertionError with what is wrong."""
        last: list[Any] = []

        def done() -> bool:
            last[:] = self.wrong()
            return not last

        try:
            until(done, what)
        except AssertionError as error:
            raise AssertionError(f"{error}: {last[:10]}") from None

    def exchange(self, *, links: Sequence[tuple[str, str]] | None = None, **options: Any) -> Exchange:
        return Exchange(self.urls, links=links, **{"interval": 0.02, **options})

    def client(self, region: str) -> redis.Redis:
        return self.servers[region].client()

    def waited_for(self, region: str) -> None:
        """Exchanges made from now on wait for this region's answers longer than any test has patience."""
        self.urls = {**self.urls, region: f"{self.urls[region]}?socket_timeout=600"}

    def close(self) -> None:
        for counters in self.counters.values():
            counters.close()


@contextmanager
def regions(names: Sequence[str] = NAMES, *arguments: str) -> Iterator[Regions]:
    """Fresh servers of different kinds, as far as there are some; ``arguments`` go to all of them."""
    found: Sequence[Kind] = kinds()
    servers: dict[str, RealServer] = {}
    try:
        for n, name in enumerate(names):
            servers[name] = RealServer.start(found[n % len(found)], *arguments)
        here = Regions(servers)
        try:
            yield here
        finally:
            here.close()
    finally:
        for server in servers.values():
            server.stop()


def fields(server: RealServer, name: str) -> dict[bytes, bytes]:
    """Return all fields of a counter's shards."""
    client, found = server.client(), dict[bytes, bytes]()
    for key in client.scan_iter(f"*:c:*:{name}"):
        told: Any = client.hgetall(key)
        found |= told
    return found


def is_of_another(field: bytes) -> bool:
    """True for an entry of another region, and for its floor."""
    return field.lstrip(b"~")[:1] == b"@" and field.lstrip(b"~")[1:2] != b"/"


MESH = None
STAR = [("eu", "us"), ("us", "eu"), ("eu", "ap"), ("ap", "eu")]
RING = [("eu", "us"), ("us", "ap"), ("ap", "eu")]
