"""Every await of every call: it may be cancelled, and it never holds up the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import redis.asyncio

from redis_counters.asyncio import Counters
from redis_counters.testing import LossyLink
from tests.faces.either import truth
from tests.lifecycle.cancelling import MOST, at_every_await, awaited, cancelled_at
from tests.servers import RealServer
from tests.waiting import PATIENCE, until


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("options", [{}, {"shards": 3}, {"max_age": 0}], ids=["plain", "shards", "no cache"])
def test_a_cancellation_at_any_await(any_server: RealServer, options: dict[str, Any], times: int) -> None:
    """get, get_many, value, inspect and flush are cancelled at each of their awaits: totals are exact, others go on."""
    total = 0

    async def main() -> int:
        nonlocal total
        client = redis.asyncio.Redis(port=any_server.port)
        points = 0
        async with Counters(client, flush_interval=60, **options) as counters:

            def count() -> None:
                nonlocal total
                counters.incr("x")
                counters.incr("y", 1000)
                total += 1

            calls: list[Callable[[], Coroutine[Any, Any, Any]]] = [
                counters.flush,
                lambda: counters.get("x", max_age=0),
                lambda: counters.get_many(["x", "y", "z"], max_age=0),
                lambda: counters.counter("y").value(max_age=0),
                lambda: counters.inspect("x"),
            ]
            for call in calls:
                count()
                points += await at_every_await(call, times, count)
                found = await asyncio.wait_for(counters.get_many(["x", "y"], max_age=0), PATIENCE)
                assert found == {"x": total, "y": 1000 * total}
        await client.aclose()
        return points

    assert asyncio.run(main()) > 12
    assert truth(any_server, ["x", "y"]) == {b"x": total, b"y": 1000 * total}


def test_a_cancellation_after_any_number_of_steps_of_the_loop(any_server: RealServer) -> None:
    """The same calls are cancelled after k turns of the event loop, for k = 0, 1, 2, ... until they are through."""
    total = cancelled = 0

    async def main() -> None:
        nonlocal total, cancelled
        client = redis.asyncio.Redis(port=any_server.port)
        async with Counters(client, flush_interval=60) as counters:
            calls: list[Callable[[], Coroutine[Any, Any, Any]]] = [
                counters.flush,
                lambda: counters.get("x", max_age=0),
                lambda: counters.get_many(["x", "y"], max_age=0),
            ]
            for call in calls:
                steps = through = 0
                while through < 5 and steps < 20_000:
                    counters.incr("x")
                    counters.incr("y", 1000)
                    total += 1
                    task = asyncio.ensure_future(call())
                    for _ in range(steps):
                        if task.done():
                            break
                        await asyncio.sleep(0)
                    asked = task.cancel()
                    done, _ = await asyncio.wait({task}, timeout=PATIENCE)
                    assert done, "it hangs"
                    assert task.cancelled() == asked, "a cancellation was lost"
                    cancelled += asked
                    through = 0 if task.cancelled() else through + 1
                    steps += 1 + steps // 20
                found = await asyncio.wait_for(counters.get_many(["x", "y"], max_age=0), PATIENCE)
                assert found == {"x": total, "y": 1000 * total}
        await client.aclose()

    asyncio.run(main())
    assert cancelled > 20
    assert truth(any_server, ["x", "y"]) == {b"x": total, b"y": 1000 * total}


@pytest.mark.parametrize("times", [1, 2])
def test_a_close_that_is_cancelled_at_any_await(any_server: RealServer, times: int) -> None:
    """It may be made up for: the next close delivers everything, and no task is left behind."""

    async def main() -> int:
        number = through = 0
        before = set(asyncio.all_tasks())
        while through < 2:
            assert number < MOST
            client = redis.asyncio.Redis(port=any_server.port)
            counters = Counters(client, flush_interval=60)
            counters.incr("x")
            if number % 2:
                await counters.flush()
            counters.incr("x", 2)
            task = asyncio.ensure_future(
                awaited(cancelled_at(counters.close(), range(number // 2, number // 2 + times)))
            )
            await asyncio.wait({task}, timeout=PATIENCE)
            through = 0 if task.cancelled() else through + 1
            await counters.close()
            await client.aclose()
            assert set(asyncio.all_tasks()) == before
            number += 1
        return number

    number = asyncio.run(main())
    assert number > 4
    assert truth(any_server, ["x"]) == {b"x": 3 * number}


@pytest.mark.parametrize("times", [1, 2])
def test_a_cancelled_close_leaves_no_connection(any_server: RealServer, times: int) -> None:
    """Also where it was cancelled while the client, which is ours, was being closed."""
    watch: Any = any_server.client()

    def connections() -> int:
        return len(watch.client_list(_type="normal"))

    async def main() -> int:
        number = through = 0
        while through < 2:
            assert number < MOST
            counters = Counters.from_url(any_server.url, flush_interval=60)
            counters.incr("x")
            task = asyncio.ensure_future(awaited(cancelled_at(counters.close(), range(number, number + times))))
            await asyncio.wait({task}, timeout=PATIENCE)
            through = 0 if task.cancelled() else through + 1
            await counters.close()
            number += 1
        return number

    before = connections()
    number = asyncio.run(main())
    until(lambda: connections() <= before, "no connection is left")  # (of earlier tests there may be fewer)
    assert truth(any_server, ["x"]) == {b"x": number}


@pytest.mark.slow("seconds of traffic")
def test_the_event_loop_is_never_held_up(any_server: RealServer) -> None:
    """Replies take a second each: through every call a ticker of ten milliseconds goes on ticking."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    async def main(link: LossyLink) -> None:
        ticker = asyncio.ensure_future(tick())
        client = redis.asyncio.Redis.from_url(link.url)
        counters = Counters(client, flush_interval=0.01)
        counters.incr("x", 5)
        calls: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "get, connecting": lambda: counters.get("x"),
            "get": lambda: counters.get("x", max_age=0),
            "get_many": lambda: counters.get_many(["x", "y"], max_age=0),
            "value": lambda: counters.counter("x").value(max_age=0),
            "flush": lambda: counters.flush(30),
            "inspect": lambda: counters.inspect("x"),
            "close": lambda: counters.close(30),
        }
        for name, call in calls.items():
            counters.incr("x")
            before = ticks
            await call()
            assert ticks - before >= 15, f"{name} held up the loop"
        ticker.cancel()
        await client.aclose()

    with LossyLink(any_server.url) as link:
        link.delay(1.0)
        asyncio.run(main(link))
    assert truth(any_server, ["x"]) == {b"x": 12}
