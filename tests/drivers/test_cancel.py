"""Tasks are cancelled at any point: counts stay exact, and no answer ever belongs to another question."""

from __future__ import annotations

import asyncio
import random

import pytest
import redis.asyncio

from redis_counters.asyncio import Counters
from redis_counters.testing import LossyLink
from tests.faces.either import truth
from tests.servers import RealServer
from tests.waiting import until_async

NAMES = [f"n{i}" for i in range(50)]
ENOUGH = 20  # calls of each fate


@pytest.mark.every(3, "more of the same")
@pytest.mark.parametrize("seed", range(3))
def test_cancelled_calls(any_server: RealServer, seed: int) -> None:
    """Reads, pages and flushes with time limits from nothing to a few answers' time, over a link with a delay.

    Each counter's value is in a range of its own, so that an answer to another question would show. How long an answer
    takes depends on the machine: the limits grow until enough calls are answered.
    """
    chance = random.Random(seed)
    longest = 0.03
    totals = {name: (i + 1) * 1_000_000 for i, name in enumerate(NAMES)}
    cancelled = answered = 0

    async def limited(call: object) -> object:
        nonlocal cancelled, answered
        task = asyncio.ensure_future(call)  # type: ignore[call-overload]
        try:
            result = await asyncio.wait_for(task, chance.random() * longest)
        except asyncio.TimeoutError:
            cancelled += 1
            return None
        answered += 1
        return result

    async def main(link: LossyLink) -> None:
        nonlocal longest
        client = redis.asyncio.Redis.from_url(link.url)
        async with Counters(client, flush_interval=0.005, max_batch=7, max_age=0.001) as counters:
            for name, amount in totals.items():
                counters.incr(name, amount)
            await counters.flush()
            link.delay(0.005)

            async def one() -> None:
                for _ in range(12):
                    name, other = chance.choice(NAMES), chance.choice(NAMES)
                    counters.incr(name)
                    totals[name] += 1
                    kind = chance.randrange(4)
                    if kind == 0:
                        value = await limited(counters.get(name, max_age=0))
                        if value is not None:
                            assert value // 1_000_000 == NAMES.index(name) + 1  # type: ignore[operator]
                    elif kind == 1:
                        value = await limited(counters.get(other))
                        if value is not None:
                            assert value // 1_000_000 == NAMES.index(other) + 1  # type: ignore[operator]
                    elif kind == 2:
                        page = await limited(counters.get_many([other, name], max_age=0))
                        if isinstance(page, dict):
                            assert {n: v // 1_000_000 for n, v in page.items()} == {
                                n: NAMES.index(n) + 1 for n in (other, name)
                            }
                    else:
                        await limited(counters.flush())

            rounds = 0
            while rounds < 20 and (rounds == 0 or cancelled <= ENOUGH or answered <= ENOUGH):
                rounds += 1
                await asyncio.wait_for(asyncio.gather(*(one() for _ in range(25))), 60)
                longest *= 1 if answered > ENOUGH else 1.5
            link.heal()
            await counters.flush()
            assert await counters.get_many(NAMES, max_age=0) == totals
        await client.aclose()

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))
    assert cancelled > ENOUGH
    assert answered > ENOUGH
    assert truth(any_server, NAMES) == {name.encode(): total for name, total in totals.items()}


def test_a_cancelled_flush_goes_on(any_server: RealServer) -> None:
    """Cancelling the one who waits does not cancel what it waits for: it is delivered all the same, once."""

    async def main(link: LossyLink) -> None:
        client = redis.asyncio.Redis.from_url(link.url)
        async with Counters(client, flush_interval=60) as counters:
            counters.incr("warm")
            await counters.flush()
            any_server.pause()
            try:
                asked = link.commands.total()
                counters.incr("x", 10)
                waiting = asyncio.create_task(counters.flush())
                await until_async(lambda: link.commands.total() > asked, "the flush is on its way")
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                assert counters.stats().pending == 1
            finally:
                any_server.resume()
            await until_async(lambda: counters.stats().pending == 0, "it is delivered")
        await client.aclose()

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))
    assert truth(any_server, ["x"]) == {b"x": 10}


def test_a_cancelled_close_can_be_made_up_for(any_server: RealServer) -> None:
    """A close that is cancelled leaves the client open: the next one delivers everything, and leaves no task behind."""

    async def main(link: LossyLink) -> None:
        before = set(asyncio.all_tasks())
        client = redis.asyncio.Redis.from_url(link.url)
        counters = Counters(client, flush_interval=60)
        for i in range(40):
            counters.incr(f"n{i}")
        link.delay(0.05)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(counters.close(), 0.08)
        link.heal()
        counters.incr("n0")
        await counters.close()
        assert set(asyncio.all_tasks()) == before
        await client.aclose()

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))
    assert sum(truth(any_server, [f"n{i}" for i in range(40)]).values()) == 41


def test_ten_loops_one_after_the_other(any_server: RealServer) -> None:
    """Each event loop has its own client; nothing is left over from the one before."""

    async def main() -> None:
        client = redis.asyncio.Redis(port=any_server.port)
        async with Counters(client) as counters:
            counters.incr("x")
        await client.aclose()
        assert len(asyncio.all_tasks()) == 1

    for _ in range(10):
        asyncio.run(main())
    assert truth(any_server, ["x"]) == {b"x": 10}
