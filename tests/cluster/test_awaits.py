"""Every await of every call on a cluster may be cancelled: totals are exact, no connection is left over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from redis_counters.asyncio import Counters
from tests.cluster.support import check, connections, no_more_connections
from tests.lifecycle.cancelling import MOST, at_every_await, awaited, cancelled_at
from tests.topologies.clusters import Cluster
from tests.waiting import PATIENCE, until

NAMES = [f"n{n}" for n in range(12)]  # on all primaries


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("known", [False, True], ids=["slots to look up", "slots known"])
def test_a_cancellation_at_any_await(any_cluster: Cluster, times: int, known: bool) -> None:
    """Flushing, reading, keyed calls and closing, also while the slots are looked up."""
    total = keys = 0

    async def main() -> int:
        nonlocal total, keys
        counters: Any = Counters.from_url(any_cluster.url, flush_interval=60, shards=2)
        transport = counters._runner.transport
        likes = counters.likes("post")
        points = 0

        def count() -> None:
            nonlocal total
            for name in NAMES:
                counters.incr(name)
            total += 1
            if not known:
                transport.stale = True

        def once() -> Coroutine[Any, Any, Any]:
            nonlocal keys
            keys += 1
            result: Coroutine[Any, Any, Any] = counters.incr_once("once", f"key {keys}")
            return result

        calls: list[Callable[[], Coroutine[Any, Any, Any]]] = [
            counters.flush,
            lambda: counters.get(NAMES[0], max_age=0),
            lambda: counters.get_many(NAMES, max_age=0),
            lambda: counters.inspect(NAMES[1]),
            once,
            lambda: likes.like("ann"),
            lambda: likes.has_many(["ann", "bob"]),
            likes.value,
        ]
        for call in calls:
            count()
            points += await at_every_await(call, times, count)
            found = await asyncio.wait_for(counters.get_many(NAMES, max_age=0), PATIENCE)
            assert found == dict.fromkeys(NAMES, total)
        for key in range(1, keys + 1):  # what was cancelled may be repeated
            await counters.incr_once("once", f"key {key}")
        assert await counters.get("once", max_age=0) == keys
        await counters.close()
        return points

    assert asyncio.run(main()) > 16  # 8 calls are cancelled once at least, and get through twice
    check(any_cluster, dict.fromkeys(NAMES, total))


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("method", ["flush", "close"])
def test_a_cancellation_at_any_await_of_the_first_use(any_cluster: Cluster, method: str, times: int) -> None:
    """While the cluster is looked up for the first time, too; the next call delivers, and nothing is left behind."""

    async def main() -> int:
        number = through = 0
        before = set(asyncio.all_tasks())
        while through < 2:
            assert number < MOST
            counters = Counters.from_url(any_cluster.url, flush_interval=60)
            for name in NAMES:
                counters.incr(name)
            call = cancelled_at(getattr(counters, method)(), range(number, number + times))
            task = asyncio.ensure_future(awaited(call))
            done, _ = await asyncio.wait({task}, timeout=PATIENCE)
            assert done, "it hangs"
            through = 0 if task.cancelled() else through + 1
            await asyncio.wait_for(counters.close(), PATIENCE)
            assert set(asyncio.all_tasks()) == before
            number += 1
        return number

    before = connections(any_cluster)
    number = asyncio.run(main())
    check(any_cluster, dict.fromkeys(NAMES, number))
    until(lambda: no_more_connections(any_cluster, before), "no connection is left over")
