"""Calls made at the same time share scripts, in the order in which they came; each gets its own answer."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
import redis

from redis_counters import Counters, InsufficientRights, UsageError, WrongType
from redis_counters.drivers.tasks import keyed as keyed_tasks
from redis_counters.protocol.keyed.bounded import ADD, SPEND, Change, limits
from redis_counters.protocol.keyed.key_shards import MAX_ITEMS
from tests.bounded.support import background, key_of, value
from tests.faces.either import FACES, Either, reset_stats
from tests.keyed.support import KEYS, done
from tests.keyed.test_batching import in_threads, scripts
from tests.keyed.test_protocol import Client
from tests.protocol.by_hand import run
from tests.servers import RealServer

both = pytest.mark.parametrize("face", FACES)


def test_threads_share_scripts(any_server: RealServer) -> None:
    """200 threads with 10 spends each, of which half find nothing left: fewer scripts than a fifth of the calls."""
    with redis.Redis(port=any_server.port) as client, Counters(client, flush_interval=60) as counters:
        stock = counters.bounded("x", floor=0)
        stock.add(1000)
        reset_stats(any_server)
        sold: list[bool] = []
        in_threads(lambda number: sold.extend(stock.try_spend(1, key=f"{number} {i}") for i in range(10)))
        assert (sold.count(True), sold.count(False)) == (1000, 1000)
        assert scripts(any_server) < 2000 / 5
        assert stock.value() == 0


def test_tasks_share_scripts_in_their_order(any_server: RealServer) -> None:
    """200 tasks, with and without a key, in one script: as if one had followed the other."""

    async def main() -> None:
        async with Either.on("asyncio", any_server, flush_interval=60) as either:
            stock = either.counters.bounded("x", floor=0)
            await stock.add(150)
            reset_stats(any_server)
            amounts = [1 + 7 * n % 5 for n in range(200)]
            calls = [stock.try_spend(amount, key=f"{n}" if n % 3 else None) for n, amount in enumerate(amounts)]
            answers = await asyncio.gather(*calls)
            left = 150
            for amount, answer in zip(amounts, answers, strict=True):
                assert answer is (amount <= left)
                left -= amount if answer else 0
            assert left == await stock.value() == 0
            assert answers.count(False) > 50
            assert scripts(any_server) == 1

    asyncio.run(main())


@both
def test_one_that_is_refused_refuses_no_other(any_server: RealServer, face: str) -> None:
    """All in one bucket: too much, other bounds, a key of another type; and a plain counter's key beside them."""
    first, second, third = [n for n in (f"n{i}" for i in range(400)) if KEYS.bucket(n.encode(), 0) == 3][:3]
    any_server.client().set(key_of(third), "mine")

    async def main() -> None:
        async with Either.on(face, any_server, flush_interval=60) as either:
            one, two, three = (either.counters.bounded(name, floor=0) for name in (first, second, third))
            await done(one.add(5))
            await done(two.add(5))
            other = either.counters.bounded(second, floor=1)
            calls = [(one.try_spend, 2), (two.spend, 9), (other.try_spend, 1), (three.try_spend, 1), (one.try_spend, 3)]
            answers = await asyncio.gather(
                *(background(face, *call) for call in calls),
                background(face, either.counters.incr_once, first, "k"),
                return_exceptions=True,
            )
            assert [answers[0], answers[4], answers[5]] == [True, True, True]
            assert [type(answer) for answer in answers[1:4]] == [InsufficientRights, UsageError, WrongType]
            assert [await done(one.value()), await done(two.value())] == [0, 5]

    asyncio.run(main())


def test_more_than_one_script_takes(any_server: RealServer) -> None:
    """They follow each other, in order still: the first that were asked for are those that were sold."""

    async def main() -> None:
        async with Either.on("asyncio", any_server) as either:
            stock = either.counters.bounded("x", floor=0)
            await stock.add(700)
            answers = await asyncio.gather(*(stock.try_spend(1) for _ in range(900)))
            assert answers == [True] * 700 + [False] * 200

    assert MAX_ITEMS < 900 < keyed_tasks.MAX_CALLS
    asyncio.run(main())


def test_looks_are_shared(any_server: RealServer) -> None:
    """Of one counter all that wait at the same time have one answer."""

    async def main() -> None:
        async with Either.on("asyncio", any_server) as either:
            stock, same = (either.counters.bounded("x", floor=0) for _ in range(2))
            await stock.add(7)
            any_server.client().config_resetstat()
            values: list[Any] = await asyncio.gather(*(s.value() for s in [stock, same] * 50))
            assert values == [7] * 100
            stats: Any = any_server.client().info("commandstats")
            assert stats["cmdstat_hgetall"]["calls"] == 1

    asyncio.run(main())


@both
def test_a_single_call_is_a_single_script(any_server: RealServer, face: str) -> None:
    async def main() -> None:
        async with Either.on(face, any_server, flush_interval=60) as either:
            stock = either.counters.bounded("x", floor=0)
            await done(stock.add(5))
            reset_stats(any_server)
            for i in range(10):
                assert await done(stock.try_spend(1, key=f"{i}")) is (i < 5)
            assert scripts(any_server) == 10

    asyncio.run(main())
    assert value(any_server, "x") == 0


def test_what_is_sent_once_more_is_the_same_call(any_server: RealServer) -> None:
    """Also without a key: a driver that was interrupted sends what was left again, in a new script."""
    client = Client(any_server)
    calls = [Change(b"x", limits(0, None), verb, amount, None) for verb, amount in ((ADD, 5), (SPEND, 3), (SPEND, 3))]
    for _ in range(3):
        assert client.do(*calls, times=2) == [b"1", b"1", b"0 2"]
        for call in calls:
            call.answer = call.error = None
    assert value(any_server, b"x") == 2


class Interrupted(BaseException):
    """As KeyboardInterrupt, which pytest would take for its own."""


def test_a_leader_is_interrupted_when_redis_has_done_it(any_server: RealServer) -> None:
    """The next one sends for the others once more, without keys: each is applied once, that of the leader too."""
    with redis.Redis(port=any_server.port) as client, Counters(client) as counters:
        stock = counters.bounded("x", floor=0)
        stock.add(1000)
        keyed = counters._runner.keyed_calls()
        ask, turns = keyed.runner.ask, iter(range(1000))

        def interrupted(asks: Any, deadline: Any = None) -> Any:
            turn = next(turns)
            time.sleep(0.02)  # so that others gather
            if turn == 1:
                for command in next(asks):
                    run(client, command)
                raise Interrupted
            return ask(asks, deadline)

        keyed.runner.ask = interrupted  # type: ignore[method-assign] # of this one runner
        results: list[object] = []

        def work(_: int) -> None:
            try:
                results.append(stock.try_spend(1))
            except Interrupted as caught:
                results.append(caught)

        in_threads(work, 30)
        assert results.count(True) == 29
        assert stock.value() == 1000 - 30
