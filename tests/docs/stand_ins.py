"""Sentinels, clusters and regions that stand for those which a page names, as docker-compose.yml starts them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.servers import Kind, RealServer
from tests.topologies import Cluster, Pair, Sentinels

SENTINELS = (26379, 26380, 26381)
NODES = (7001, 7002, 7003, 7004, 7005, 7006)
REGIONS = (6381, 6382)  # besides the one Redis of all pages


@contextmanager
def stand_ins(text: str, kind: Kind) -> Iterator[dict[str, str]]:
    """Yield, by what the page says of an address, what is to be read instead; only what it names is started."""
    instead: dict[str, str] = {}
    with ExitStack() as stack:
        if str(SENTINELS[0]) in text:
            pair = Pair(kind)
            stack.callback(pair.stop)
            sentinels = Sentinels(pair)
            stack.callback(sentinels.stop)
            instead |= _addresses(SENTINELS, sentinels.addresses)
        if str(NODES[0]) in text:
            cluster = Cluster(kind, followers=1)
            stack.callback(cluster.stop)
            instead |= _addresses(NODES, cluster.addresses)
        for port in REGIONS:
            if f":{port}" in text:
                server = RealServer.start(kind)
                stack.callback(server.stop)
                instead |= _addresses((port,), [(server.host, server.port)])
        yield instead


def _addresses(written: tuple[int, ...], real: list[tuple[str, int]]) -> dict[str, str]:
    instead: dict[str, str] = {}
    for port, (host, here) in zip(written, real, strict=True):
        instead[f"localhost:{port}"] = f"{host}:{here}"  # of a URL
        instead[f'("localhost", {port})'] = f'("{host}", {here})'  # of Python
    return instead
