"""Callers who want the same counter at the same time cause one read; a reader that fails leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from redis_counters import Counters, Unavailable
from redis_counters.asyncio import Counters as AsyncioCounters
from redis_counters.testing import LossyLink
from tests.faces.either import truth
from tests.servers import RealServer

HANDFUL = 5


def test_threads_share_a_read(any_server: RealServer) -> None:
    """Fifty threads that meet an expired snapshot send a handful of commands, and all get the value."""
    barrier = threading.Barrier(50)
    with (
        LossyLink(any_server.url) as link,
        redis.Redis.from_url(link.url) as client,
        Counters(client, max_age=0.5) as counters,
        ThreadPoolExecutor(50) as pool,
    ):

        def read(_: int) -> int:
            barrier.wait(10)
            return counters.get("x", max_age=0.001)

        counters.incr("x", 5)
        counters.flush()
        link.delay(0.05)
        for _ in range(3):
            before = link.commands["HGETALL"]
            assert list(pool.map(read, range(50))) == [5] * 50
            assert 1 <= link.commands["HGETALL"] - before <= HANDFUL
        link.heal()


def test_tasks_share_a_read(any_server: RealServer) -> None:
    """Five hundred tasks that meet an expired snapshot send a handful of commands, and all get the value."""

    async def main(link: LossyLink) -> None:
        client = redis.asyncio.Redis.from_url(link.url)
        async with AsyncioCounters(client) as counters:
            counters.incr("x", 5)
            await counters.flush()
            link.delay(0.05)
            for _ in range(3):
                before = link.commands["HGETALL"]
                values = await asyncio.gather(*(counters.get("x", max_age=0.001) for _ in range(500)))
                assert values == [5] * 500
                assert 1 <= link.commands["HGETALL"] - before <= HANDFUL
            link.heal()
        await client.aclose()

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))


def test_a_cancelled_reader_leaves_its_followers_an_answer(any_server: RealServer) -> None:
    """The task that asks is cancelled: those who waited for it ask again, once, and get the value."""

    async def main(link: LossyLink) -> None:
        client = redis.asyncio.Redis.from_url(link.url)
        async with AsyncioCounters(client) as counters:
            await counters.get("warm")
            with Counters(any_server.client()) as other:
                other.incr("x", 5)
            link.delay(0.1)
            leader = asyncio.create_task(counters.get("x"))
            await asyncio.sleep(0.02)
            followers = [asyncio.create_task(counters.get("x")) for _ in range(100)]
            await asyncio.sleep(0.02)
            leader.cancel()
            assert await asyncio.wait_for(asyncio.gather(*followers), 10) == [5] * 100
            with pytest.raises(asyncio.CancelledError):
                await leader
            assert link.commands["HGETALL"] <= 1 + HANDFUL
            link.heal()
        await client.aclose()

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))


def test_failures_are_not_cached(any_server: RealServer) -> None:
    """While Redis is out of reach every reader is told so; the first read afterwards has the value."""
    with (
        LossyLink(any_server.url) as link,
        redis.Redis.from_url(link.url, retry=Retry(NoBackoff(), 0)) as client,
        Counters(client, max_age=60) as counters,
        ThreadPoolExecutor(8) as pool,
    ):

        def is_told(_: int) -> bool:
            with pytest.raises(Unavailable):
                counters.get("x")
            return True

        counters.incr("x", 5)
        counters.flush()
        link.cut_before(every=1, commands=["HGETALL"])
        assert list(pool.map(is_told, range(4))) == [True] * 4  # fewer than open the breaker
        assert link.cut >= 1
        link.heal()
        assert counters.get("x") == 5
        link.cut_before(every=1, commands=["HGETALL"])
        assert counters.get("x") == 5
        with pytest.raises(Unavailable):
            counters.get("x", max_age=0)
        assert counters.get("x") == 5
        link.heal()
    assert truth(any_server, ["x"]) == {b"x": 5}


def test_failures_are_not_cached_by_tasks_either(any_server: RealServer) -> None:
    """As above, for tasks: all are told, and none of it lasts."""

    async def main(link: LossyLink) -> None:
        from redis.asyncio.retry import Retry as AsyncioRetry

        client = redis.asyncio.Redis.from_url(link.url, retry=AsyncioRetry(NoBackoff(), 0))
        async with AsyncioCounters(client, max_age=60) as counters:
            counters.incr("x", 5)
            await counters.flush()
            link.cut_before(every=1, commands=["HGETALL"])
            told = await asyncio.gather(*(counters.get("x") for _ in range(20)), return_exceptions=True)
            assert [type(error) for error in told] == [Unavailable] * 20
            link.heal()
            assert await counters.get("x") == 5
            link.cut_before(every=1, commands=["HGETALL"])
            assert await counters.get("x") == 5
            link.heal()
        await client.aclose()

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))
