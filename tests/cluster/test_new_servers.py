"""Servers that the client does not know yet, or knows by other addresses than the cluster does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redis_counters.drivers.redis_py.cluster import Cluster as BlockingCluster
from redis_counters.drivers.redis_py.cluster_asyncio import ClusterAsyncio
from redis_counters.testing import LossyLink
from tests.cluster.links import Address, Links, address_of, through
from tests.cluster.support import KEYS, NAMES, writing
from tests.faces.either import FACES, Either
from tests.keyed.support import done
from tests.servers import Kind
from tests.topologies.clusters import Cluster, Moving, slot_of


def slot_of_name(name: str) -> int:
    return slot_of(KEYS.shard_key(name.encode(), 0)[1])


@pytest.mark.parametrize("face", FACES)
def test_the_first_slot_on_its_way_to_a_new_primary(private_cluster: Cluster, face: str) -> None:
    """No list of slots names a server that has none yet: what ASK says is enough to count and to read there."""

    async def main() -> None:
        async with Either.url(face, private_cluster.url, flush_interval=0.01) as counters:
            for name in NAMES:
                counters.incr(name)
            await counters.flush()
            moving = Moving(private_cluster, slot_of_name("n0"), private_cluster.add_primary())
            moving.move(*moving.keys())  # all are there, and the slot is not yet
            assert await counters.get_many(NAMES, max_age=0) == dict.fromkeys(NAMES, 1)
            for name in NAMES:
                counters.incr(name)
            await counters.flush()
            assert await counters.get_many(NAMES, max_age=0) == dict.fromkeys(NAMES, 2)
            moving.finish()
            assert await done(counters.counters.incr_once("n0", "key")) is True
            assert await done(counters.counters.incr_once("n0", "key")) is False
            for name in NAMES:
                counters.incr(name)
            await counters.flush()
            assert await counters.get_many(NAMES, max_age=0) == {**dict.fromkeys(NAMES, 3), "n0": 4}

    asyncio.run(main())


def test_a_fourth_primary_takes_its_share_under_load(private_cluster: Cluster) -> None:
    """A quarter of the buckets goes there, one after the other, while four writers run."""
    with writing(private_cluster) as writers:
        writers.go_on(3)
        new = private_cluster.add_primary()
        slots = list(dict.fromkeys(slot_of(registry) for registry in KEYS.registries))[::4]
        for slot in slots:
            private_cluster.move_slot(slot, new)
        writers.go_on(3)
        assert all(private_cluster.node_of(slot) is new for slot in slots)


@pytest.mark.parametrize("face", FACES)
def test_all_servers_have_other_addresses(any_kind: Kind, face: str) -> None:
    """As after a restart in Kubernetes: what the URL names leads to new ones, and nobody else knows them."""

    async def main() -> None:
        clusters = [Cluster(any_kind)]
        try:
            with LossyLink(f"redis://{clusters[0].nodes[0].host}:{clusters[0].nodes[0].port}") as link:
                url = link.url.replace("redis://", "redis+cluster://")
                async with Either.url(face, url, flush_interval=0.01) as counters:
                    counters.incr("before")
                    await counters.flush()
                    clusters[0].stop()
                    clusters.append(Cluster(any_kind))
                    link.lead_to(f"redis://{clusters[1].nodes[0].host}:{clusters[1].nodes[0].port}")
                    counters.incr("after", 3)
                    await counters.flush()
                    assert await counters.get("after", max_age=0) == 3
        finally:
            for cluster in clusters:
                cluster.stop()

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_addresses_that_are_mapped(
    any_cluster: Cluster, links: Links, face: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MOVED and ASK name a server as the cluster knows it; it is reached where the client's address_remap says."""
    transport: Any = BlockingCluster if face == "blocking" else ClusterAsyncio
    lane_to, reached = transport.lane_to, set[Address]()

    def noted(self: Any, address: Address, deadline: Any = None) -> Any:
        reached.add(address)
        return lane_to(self, address, deadline)

    monkeypatch.setattr(transport, "lane_to", noted)

    async def main() -> None:
        client = through(face, links)
        slot = slot_of_name("n0")
        source = any_cluster.node_of(slot)
        target = next(node for node in any_cluster.primaries() if node is not source)
        async with Either(face, client, flush_interval=0.01) as counters:
            for name in NAMES:
                counters.incr(name)
            await counters.flush()
            moving = Moving(any_cluster, slot, target)
            moving.move(*moving.keys())
            assert await counters.get_many(NAMES, max_age=0) == dict.fromkeys(NAMES, 1)
            for name in NAMES:
                counters.incr(name)
            await counters.flush()
            moving.finish()
            for name in NAMES:
                counters.incr(name)
            await counters.flush()
            assert await counters.get_many(NAMES, max_age=0) == dict.fromkeys(NAMES, 3)
            any_cluster.move_slot(slot, source)
            assert await counters.get_many(NAMES, max_age=0) == dict.fromkeys(NAMES, 3)
        await done(client.aclose() if face == "asyncio" else client.close())

    asyncio.run(main())
    assert reached == {address_of(link) for link in links.values()}
