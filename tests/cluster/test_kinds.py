"""Whole kinds of faults at the servers of a cluster: replies lost, connections cut, commands doubled, and more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from redis_counters import Unavailable
from redis_counters.drivers.redis_py.cluster_lane import ClusterLane
from redis_counters.drivers.redis_py.cluster_lane_asyncio import ClusterLaneAsyncio
from redis_counters.protocol.wire.commands import Command
from redis_counters.testing import LossyLink
from tests.cluster.links import Links, through
from tests.cluster.support import at, held_up
from tests.faces.either import FACES, Either
from tests.keyed.support import done
from tests.topologies.clusters import Cluster
from tests.waiting import PATIENCE

NAMES = [f"n{n}" for n in range(60)]

COUNTING = ("EVALSHA", "EVAL")
TROUBLES: dict[str, Callable[[LossyLink], object]] = {
    "replies lost": lambda link: link.drop_reply(probability=0.05, seed=3, commands=COUNTING),
    "cut before": lambda link: link.cut_before(probability=0.05, seed=3, commands=COUNTING),
    "doubled": lambda link: link.duplicate(every=2, commands=COUNTING),
}


async def patiently(work: Callable[[], Any]) -> Any:
    """Repeat what may be repeated until Redis has answered."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with suppress(Unavailable):
            return await done(work())
    raise AssertionError("Redis has not answered")


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("face", FACES)
def test_trouble_at_every_server(any_cluster: Cluster, links: Links, face: str, trouble: str, protocol: int) -> None:
    """Counting, keyed calls, likes, seeds and closing are exact, whatever the links do."""

    async def main() -> None:
        client = through(face, links, protocol=protocol, socket_timeout=1.0)
        await done(client.set("plain", 5))
        counters = Either(face, client, flush_interval=0.01, shards=3)
        api: Any = counters.counters
        for link in links.values():
            TROUBLES[trouble](link)
        for n in range(6):
            for name in NAMES:
                counters.incr(name, n + 1)
            await counters.flush(60)
        likes = api.likes("post")
        for name in NAMES[:12]:
            await patiently(partial(api.incr_once, name, "key", 100))
            await patiently(partial(api.incr_once, name, "key", 100))
            await patiently(partial(likes.like, name))
        await patiently(lambda: likes.unlike(NAMES[0]))
        await patiently(lambda: api.seed("old", 1_000, "t"))
        await patiently(lambda: api.adopt("plain", "adopted"))
        expected = {name: 21 + 100 * (n < 12) for n, name in enumerate(NAMES)} | {"old": 1_000, "adopted": 5}
        assert await patiently(lambda: api.get_many(expected, max_age=0)) == expected
        assert await patiently(likes.value) == 11
        assert (await patiently(lambda: likes.has_many(NAMES[:2]))) == {NAMES[0]: False, NAMES[1]: True}
        for _ in range(3):
            for name in NAMES:
                counters.incr(name)
        await done(api.close(60))
        harmed = sum(link.dropped + link.cut + link.duplicated for link in links.values())
        assert harmed > 20
        for link in links.values():
            link.heal()
        async with Either.url(face, any_cluster.url) as reader:
            found = await reader.get_many(expected, max_age=0)
            assert found == {name: value + 3 * (name in NAMES) for name, value in expected.items()}
        await done(client.aclose() if face == "asyncio" else client.close())

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_one_server_forgets_its_scripts(any_cluster: Cluster, face: str) -> None:
    """One more round trip, no error, exact: for flushes, pages and keyed calls."""

    async def main() -> None:
        async with Either.url(face, any_cluster.url, flush_interval=0.01) as counters:
            api: Any = counters.counters
            for n in range(6):
                any_cluster.nodes[n % 3].ask("SCRIPT", "FLUSH")
                for name in NAMES:
                    counters.incr(name)
                await counters.flush()
                any_cluster.nodes[n % 3].ask("SCRIPT", "FLUSH")
                assert await counters.get_many(NAMES, max_age=0) == dict.fromkeys(NAMES, n + 1)
                any_cluster.nodes[n % 3].ask("SCRIPT", "FLUSH")
                for name in NAMES[:10]:
                    assert await done(api.incr_once(f"once {name}", f"{n}")) is True
            assert await counters.get("once n0", max_age=0) == 6

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_one_server_takes_no_writes(private_cluster: Cluster, face: str) -> None:
    """OOM, or too few replicas: its buckets wait, the others go on; then all is there."""

    async def main() -> None:
        node = private_cluster.primaries()[1]
        async with Either.url(face, private_cluster.url, flush_interval=0.01) as counters:
            for name in NAMES:
                counters.incr(name)
            await counters.flush()
            expected = 1
            for option, refusing, taking in (("maxmemory", "1", "0"), ("min-replicas-to-write", "5", "0")):
                node.ask("CONFIG", "SET", option, refusing)
                for name in NAMES:
                    counters.incr(name)
                waiting = at(private_cluster, node, NAMES)
                await held_up(counters, waiting)
                rest = [name for name in NAMES if name not in waiting]
                expected += 1
                assert await counters.get_many(rest, max_age=0) == dict.fromkeys(rest, expected)
                node.ask("CONFIG", "SET", option, taking)
                await counters.flush()
                assert await counters.get_many(NAMES, max_age=0) == dict.fromkeys(NAMES, expected)

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_very_many_names(any_cluster: Cluster, face: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """50,000 names go in pieces, and pages of 5,000 are read: no command has so many keys that it holds a server up."""
    lane: Any = ClusterLane if face == "blocking" else ClusterLaneAsyncio
    send, keys = lane.send, list[int]()

    def overheard(self: Any, command: Command, text: bool) -> Any:
        keys.append(len(command.keys))
        return send(self, command, text)

    monkeypatch.setattr(lane, "send", overheard)

    async def main() -> None:
        names = [f"many:{n}" for n in range(50_000)]
        async with Either.url(face, any_cluster.url) as counters:
            for name in names:
                counters.incr(name)
            await counters.flush(60)
            for start in range(0, len(names), 5_000):
                page = names[start : start + 5_000]
                assert await counters.get_many(page, max_age=0) == dict.fromkeys(page, 1)

    asyncio.run(main())
    assert 100 < max(keys) <= 500 + 2  # as many counters as `max_batch` says, the registry and the index
