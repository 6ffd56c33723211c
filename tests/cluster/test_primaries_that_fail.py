"""A primary is killed, frozen or replaced under load, and its follower takes over: exact, without user action."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from redis_counters import Unavailable
from redis_counters.events import Event, EventKind
from tests.cluster.support import NAMES, check, held_up, lose_one, writing
from tests.faces.either import FACES, Either
from tests.topologies.clusters import Cluster
from tests.topologies.nodes import Node
from tests.waiting import until_async

DISASTERS: dict[str, Callable[[Cluster, Node], None]] = {
    "killed": lambda cluster, primary: primary.kill(),
    "frozen": lambda cluster, primary: primary.pause(),
}


@pytest.mark.parametrize("disaster", DISASTERS)
def test_a_primary_under_load(private_cluster: Cluster, disaster: str) -> None:
    with writing(private_cluster) as writers:
        writers.go_on(3)
        primary = private_cluster.primaries()[0]
        DISASTERS[disaster](private_cluster, primary)
        private_cluster.wait_for_failover(primary)
        writers.go_on(3)
        if disaster == "frozen":  # it comes back, believes that it is a primary, and learns better
            primary.resume()
            private_cluster.agreed()
            writers.go_on(3)


def test_a_primary_that_is_replaced_in_order(private_cluster: Cluster) -> None:
    """CLUSTER FAILOVER, as an upgrade does it, of one primary after the other."""
    with writing(private_cluster) as writers:
        for primary in private_cluster.primaries():
            writers.go_on(2)
            private_cluster.fail_over(primary)
        writers.go_on(3)


def test_what_the_follower_did_not_have(private_cluster: Cluster) -> None:
    """Its primary had confirmed counts that never reached it: they are told again, and an event tells of it."""
    events: list[Event] = []

    async def main() -> None:
        async with Either.url("asyncio", private_cluster.url, flush_interval=0.01, observer=events.append) as counters:
            for name in NAMES:
                counters.incr(name)
            await counters.flush()
            primary = private_cluster.primaries()[0]
            (follower,) = private_cluster.followers_of(primary)
            follower.pause()
            primary.ask("CLIENT", "KILL", "TYPE", "replica")  # what comes now waits for it, and dies with the primary
            for name in NAMES:
                counters.incr(name, 2)
            await counters.flush()
            primary.kill()
            follower.resume()
            await asyncio.to_thread(private_cluster.wait_for_failover, primary)
            counters.incr("more")
            await until_async(
                lambda: EventKind.HEALED in [event.kind for event in events], "an event that tells of the healing"
            )
            await counters.flush(60)
            assert await counters.get_many(NAMES, max_age=0) == dict.fromkeys(NAMES, 3)
        check(private_cluster, dict.fromkeys(NAMES, 3))

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_the_other_primaries_go_on(private_cluster: Cluster, face: str) -> None:
    """With one primary gone for good, what lies on the others is flushed and read; its own waits."""

    async def main() -> None:
        counters = Either.url(face, private_cluster.url, flush_interval=0.01)
        for name in NAMES:
            counters.incr(name)
        await counters.flush()
        gone, here = lose_one(private_cluster, NAMES)
        for name in NAMES:
            counters.incr(name)
        await held_up(counters, gone)
        assert await counters.get_many(here, max_age=0) == dict.fromkeys(here, 2)
        with pytest.raises(Unavailable):
            await counters.close(0.5)

    asyncio.run(main())
