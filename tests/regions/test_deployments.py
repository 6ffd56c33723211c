"""A region may be any deployment: a cluster, what Sentinels watch, a server in this process; in either face."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis
import redis.asyncio

import redis_counters.asyncio
from redis_counters import Counters, Exchange
from redis_counters.protocol.wire.keys import CLUSTER_BUCKETS
from tests.regions.support import regions
from tests.servers import RealServer
from tests.topologies import Cluster, Sentinels
from tests.waiting import until

FACES = ["blocking", "asyncio"]


def exchanged(face: str, urls: dict[str, Any], **options: Any) -> None:
    """Every region has what the others had."""
    if face == "blocking":
        exchange = Exchange(urls, **options)
        exchange.run_once()
        exchange.close()
        return

    async def main() -> None:
        exchange = redis_counters.asyncio.Exchange(urls, **options)
        await exchange.run_once()
        await exchange.close()

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_a_cluster(any_cluster: Cluster, any_server: RealServer, face: str) -> None:
    """Buckets lie on several servers there; what is new takes the number of buckets that a cluster wants."""
    regions = {"eu": any_cluster.url, "us": any_server.url}
    with Counters.from_url(regions["eu"]) as eu:
        for n in range(200):
            eu.incr(f"n{n}", n + 1)
        eu.counter("hot", shards=8).incr(5)
    exchanged(face, regions)
    with Counters.from_url(regions["us"]) as us:
        assert us.get_many([f"n{n}" for n in range(200)]) == {f"n{n}": n + 1 for n in range(200)}
        assert us.get("hot", max_age=0) == 5
        assert us._core.writer.router.presumed_keys.buckets == CLUSTER_BUCKETS
        for n in range(200):
            us.incr(f"n{n}", 1000)
        us.counter("hot", shards=8).incr(5)
    exchanged(face, regions)
    with Counters.from_url(regions["eu"]) as eu:
        assert eu.get_many([f"n{n}" for n in range(200)]) == {f"n{n}": n + 1001 for n in range(200)}
        assert eu.get("hot", max_age=0) == 10


def test_a_new_cluster_and_a_new_server(any_cluster: Cluster, any_server: RealServer) -> None:
    """Where nobody has counted yet, all regions get the number of buckets that a cluster wants."""
    exchange = Exchange({"us": any_server.url, "eu": any_cluster.url})
    exchange.run_once()
    assert {region.buckets for region in exchange.regions().values()} == {CLUSTER_BUCKETS}
    exchange.close()


def test_a_failover_under_sentinels(sentinels: Sentinels, any_server: RealServer) -> None:
    """The exchange finds the new primary by itself, and goes on."""
    regions = {"eu": sentinels.url, "us": any_server.url}
    with Counters.from_url(regions["eu"]) as eu, Counters.from_url(regions["us"]) as us, Exchange(regions) as exchange:
        eu.incr("a", 3)
        eu.flush()
        until(lambda: us.get("a", max_age=0) == 3, "it came over")
        sentinels.pair.primary.kill()
        us.incr("a", 4)
        us.flush()
        eu.incr("a", 1)
        until(lambda: us.get("a", max_age=0) == 8, "what is counted there comes over again")
        until(lambda: eu.get("a", max_age=0) == 8, "and what is counted here goes there")
        assert exchange.stats().failures > 0


@pytest.mark.parametrize("face", FACES)
def test_in_this_process(face: str, any_server: RealServer) -> None:
    """For tests of those who use it: a region in memory, and one on a server."""
    regions = {"eu": f"memory://exchange-{face}", "us": any_server.url}
    with Counters.from_url(regions["eu"]) as eu:
        eu.incr("a", 3)
        eu.flush()
        exchanged(face, regions)
        with Counters.from_url(regions["us"]) as us:
            assert us.get("a", max_age=0) == 3
            us.incr("a", 4)
        exchanged(face, regions)
        assert eu.get("a", max_age=0) == 7


@pytest.mark.parametrize("face", FACES)
def test_a_primary_of_a_cluster_fails(private_cluster: Cluster, any_server: RealServer, face: str) -> None:
    """What lies on the other primaries goes on meanwhile; then its own does, on its follower."""
    urls = {"eu": private_cluster.url, "us": any_server.url}
    names = [f"n{n}" for n in range(100)]

    async def main() -> None:
        async with redis_counters.asyncio.Exchange(urls, interval=0.05) as exchange:
            await asyncio.to_thread(body, exchange)

    def body(exchange: Any) -> None:
        with Counters.from_url(urls["eu"]) as eu, Counters.from_url(urls["us"]) as us:
            for name in names:
                eu.incr(name)
            eu.flush()
            until(lambda: us.get_many(names, max_age=0) == dict.fromkeys(names, 1), "all came over")
            meta = private_cluster.node_of("rc:meta")
            primary = next(node for node in private_cluster.primaries() if node is not meta)
            (follower,) = private_cluster.followers_of(primary)
            for node in private_cluster.nodes:
                node.ask("CONFIG", "SET", "cluster-require-full-coverage", "no")
            follower.pause()  # so that nobody takes over before it goes on
            primary.kill()
            for name in names:
                us.incr(name, 2)
                eu.incr(name, 4)
            us.flush()
            until(lambda: sum(us.get_many(names, max_age=0).values()) > 300, "some of it comes over meanwhile")
            follower.resume()
            private_cluster.wait_for_failover(primary)
            eu.flush(60)
            until(lambda: us.get_many(names, max_age=0) == dict.fromkeys(names, 7), "all came over again")
            until(lambda: eu.get_many(names, max_age=0) == dict.fromkeys(names, 7), "in both directions")
            assert exchange.stats().failures > 0

    if face == "asyncio":
        asyncio.run(main())
    else:
        with Exchange(urls, interval=0.05) as exchange:
            body(exchange)


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("face", FACES)
def test_clients_of_the_caller(face: str, protocol: int) -> None:
    """They may decode answers, speak either protocol, and are left open."""
    options: dict[str, Any] = {"decode_responses": True, "protocol": protocol}
    with regions(["eu", "us"]) as here:
        module: Any = redis if face == "blocking" else redis.asyncio
        for n in range(300):
            here.incr("eu" if n % 2 else "us", f"n{n}", n)
        here.flush()
        clients = {name: module.Redis.from_url(url, **options) for name, url in here.urls.items()}

        async def main() -> None:
            exchange = redis_counters.asyncio.Exchange(clients)
            await exchange.run_once()
            await exchange.evict("us")
            await exchange.add_regions({"us": clients["us"]})
            await exchange.run_once()
            await exchange.close()
            for client in clients.values():
                assert await client.ping()
                await client.aclose()

        if face == "asyncio":
            asyncio.run(main())
        else:
            exchange = Exchange(clients)
            exchange.run_once()
            exchange.evict("us")
            exchange.add_regions({"us": clients["us"]})
            exchange.run_once()
            exchange.close()
            for client in clients.values():
                assert client.ping()
                client.close()
        assert here.wrong() == []
