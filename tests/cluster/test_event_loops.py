"""Connections to a cluster: in one event loop after the other, and in the end."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
import redis.asyncio

from redis_counters.asyncio import Counters as AsyncioCounters
from redis_counters.drivers.redis_py.cluster_asyncio import ClusterAsyncio
from tests.cluster.support import connections, no_more_connections
from tests.faces.either import FACES, Either
from tests.topologies.clusters import Cluster
from tests.waiting import until

# An event loop that is closed leaves connections behind, and asyncio warns of them.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning", "ignore:coroutine:RuntimeWarning"
)


def test_in_a_second_event_loop(any_cluster: Cluster) -> None:
    counters = AsyncioCounters.from_url(any_cluster.url)

    async def use(last: bool) -> int:
        for n in range(50):
            counters.incr(f"n{n}")
        await counters.flush()
        found = sum((await counters.get_many([f"n{n}" for n in range(50)], max_age=0)).values())
        if last:
            await counters.close()
        return found

    assert asyncio.run(use(last=False)) == 50
    assert asyncio.run(use(last=True)) == 100
    gc.collect()  # within the filter


@pytest.mark.parametrize("face", FACES)
def test_closed_means_that_no_connection_is_left(any_cluster: Cluster, face: str) -> None:
    """Nor are there more and more of them, however often the slots are looked up."""

    async def main() -> None:
        counters = Either.url(face, any_cluster.url)
        transport: Any = counters.counters._runner.transport
        most: list[int] = []
        for n in range(40):
            transport.stale = True
            for name in range(50):
                counters.incr(f"n{name}")
            await counters.flush()
            assert len(await counters.get_many([f"n{name}" for name in range(50)], max_age=0)) == 50
            if n == 20:
                most = connections(any_cluster)
        assert no_more_connections(any_cluster, most, more=1)
        await counters.close()

    before = connections(any_cluster)
    asyncio.run(main())
    until(lambda: no_more_connections(any_cluster, before), "no connection is left")


def test_tasks_that_come_at_once_share_the_connections_to_a_server(any_cluster: Cluster) -> None:
    """Else some of them are nobody's to close."""

    async def main() -> None:
        client = redis.asyncio.RedisCluster.from_url(any_cluster.url.replace("+cluster", "").partition(",")[0])
        transport = ClusterAsyncio(client)
        addresses = await transport.primaries() * 5
        transport.stale = True  # so that each has to wait
        lanes = await asyncio.gather(*(transport.lane_to(address) for address in addresses))
        assert len({id(lane.client) for lane in lanes}) == len(set(addresses))
        await transport.disconnect()

    asyncio.run(main())
