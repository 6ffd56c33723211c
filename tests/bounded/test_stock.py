"""A stock of 100, and many more attempts, of processes and of tasks, over links that lose: exactly 100 are sold."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis

from redis_counters import Counters, Unavailable
from redis_counters.asyncio import Counters as AsyncioCounters
from redis_counters.testing import LossyLink
from tests.bounded.support import insisting, value
from tests.lifecycle.children import ended_well, forked, forks
from tests.servers import RealServer

STOCK = 100
LIMIT = 120  # seconds: 50 processes on few cores


def sizes(seed: int, attempts: int) -> list[int]:
    chance = random.Random(seed)
    return [chance.choice([1, 1, 1, 2, 3, 7, 40]) for _ in range(attempts)]


def insisted(call: Callable[[], bool]) -> bool:
    """Return the answer of a call that is repeated until there is one."""
    while True:
        try:
            return call()
        except Unavailable:
            time.sleep(0.02)  # after some failures in a row, calls fail at once for a moment


def sell(url: str, number: int, attempts: int) -> int:
    """Try to sell by keys, and give back some of it; return what is sold."""
    sold = 0
    with Counters.from_url(url) as counters:
        stock = counters.bounded("sku", floor=0)
        for i, size in enumerate(sizes(number, attempts)):
            key = f"{number} {i}"
            if insisted(lambda: stock.try_spend(size, key=key)):  # noqa: B023 - at once
                sold += size
                if i % 3 == 0:
                    insisted(lambda: stock.give_back(key))  # noqa: B023 - at once
                    sold -= size
    return sold


@forks
@pytest.mark.timeout(3 * LIMIT)
@pytest.mark.parametrize(
    ("processes", "attempts"), [(6, 50), pytest.param(50, 200, marks=pytest.mark.slow("10,000 attempts"))]
)
def test_processes_sell_exactly_what_is_there(any_server: RealServer, processes: int, attempts: int) -> None:
    """Over a link that loses a tenth of the scripts, before or after, and doubles some: exactly 100, never 101."""
    client: Any = any_server.client()
    with redis.Redis(port=any_server.port) as own, Counters(own) as counters:
        stock = counters.bounded("sku", floor=0)
        stock.add(STOCK, key="delivery")
        with LossyLink(any_server.url) as link:
            for n, fault in enumerate(("drop_reply", "cut_before", "duplicate")):
                getattr(link, fault)(probability=0.05, seed=n, commands={"EVALSHA"})

            def child(number: int) -> None:
                sold = sell(link.url, number, attempts)
                with redis.Redis(port=any_server.port) as teller:
                    teller.incrby("sold", sold)

            ended_well(*(forked(lambda n=n: child(n), 2 * LIMIT) for n in range(processes)))  # type: ignore[misc]
            assert link.dropped + link.cut + link.duplicated > processes
        sold = int(client.get("sold"))
        left = stock.value()
        assert sold + left == STOCK
        while left:
            assert stock.try_spend(min(left, 1)) is True
            left -= 1
        assert stock.try_spend(1) is False
        assert value(any_server, "sku") == 0


@pytest.mark.parametrize(
    ("tasks", "attempts"), [(20, 25), pytest.param(50, 200, marks=pytest.mark.slow("10,000 attempts"))]
)
def test_tasks_sell_exactly_what_is_there(any_server: RealServer, tasks: int, attempts: int) -> None:
    """In the asyncio face, with four clients of one process; who gets no answer asks again."""

    async def main(link: LossyLink) -> int:
        clients = [AsyncioCounters.from_url(link.url) for _ in range(4)]
        stocks = [client.bounded("sku", floor=0) for client in clients]
        await insisting(stocks[0].add, STOCK, "delivery")
        for n, fault in enumerate(("drop_reply", "cut_before", "duplicate")):
            getattr(link, fault)(probability=0.05, seed=n, commands={"EVALSHA"})

        async def buyer(number: int) -> int:
            stock, sold = stocks[number % 4], 0
            for i, size in enumerate(sizes(number, attempts)):
                sold += size * await insisting(stock.try_spend, size, f"{number} {i}")
            return sold

        sold = sum(await asyncio.gather(*map(buyer, range(tasks))))
        link.heal()
        for client in clients:
            await client.close()
        return sold

    with LossyLink(any_server.url) as link:
        assert asyncio.run(main(link)) == STOCK
        assert link.dropped + link.cut > 3
    assert value(any_server, "sku") == 0
