"""Counts are exact to the range of int64 in each slot, and beyond it in the sum; what does not fit is refused alone."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
import redis

from redis_counters import Counters, Overflow, Refused
from tests.faces.either import FACES, Either, truth
from tests.servers import RealServer

MOST = 2**63 - 1


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("start", [2**53 - 2, -(2**53) + 2, 2**62, -(2**62), 10**15, 10**16 - 1, 2**63 - 8])
def test_around_the_limits_of_doubles(server: RealServer, face: str, start: int, shards: int) -> None:
    """From just below a limit, five steps of one over it are five, read back by either way; no float is stored."""
    step = 1 if start > 0 else -1

    async def main() -> None:
        async with Either.on(face, server, shards=shards) as counters:
            counters.add("x", start)
            await counters.flush()
            for i in range(1, 6):
                counters.add("x", step)
                assert await counters.get("x") == start + step * i
                await counters.flush()
                assert await counters.get("x", max_age=0) == start + step * i
                assert (await counters.get_many(["x", "y"], max_age=0)) == {"x": start + step * i, "y": 0}

    asyncio.run(main())
    assert truth(server, ["x"]) == {b"x": start + 5 * step}
    client: Any = server.client()
    for key in client.keys("*:c:*"):
        fields = client.hgetall(key)
        assert all(value.lstrip(b"-").isdigit() for field, value in fields.items() if field != b"d")


@pytest.mark.parametrize("face", FACES)
def test_an_amount_that_does_not_fit_is_refused_at_the_call(any_server: RealServer, face: str) -> None:
    """2^62 twice is one too many for a slot: Overflow at the second call, for this counter alone, nothing changed."""

    async def main() -> None:
        async with Either.on(face, any_server) as counters:
            counters.incr("other")
            counters.incr("big", 2**62)
            for _ in range(3):
                with pytest.raises(Overflow, match="big") as caught:
                    counters.incr("big", 2**62)
                assert caught.value.counter == b"big"
                assert isinstance(caught.value, Refused)
            counters.incr("big", 2**62 - 1)
            counters.decr("big", MOST)
            with pytest.raises(Overflow, match="big"):
                counters.decr("big", 2**32)
            counters.incr("other")
            assert await counters.get("big") == 0
            await counters.flush()
            assert await counters.get("big", max_age=0) == 0

    asyncio.run(main())
    assert truth(any_server, ["big", "other"]) == {b"big": 0, b"other": 2}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("amount", [-(2**63), 2**63, 2**64, -(2**70), 10**30])
def test_amounts_beyond_int64(any_server: RealServer, face: str, amount: int) -> None:
    """No slot takes an amount beyond int64, -2^63 neither: Overflow at the call."""

    async def main() -> None:
        async with Either.on(face, any_server) as counters:
            counters.incr("x")
            with pytest.raises(Overflow, match="x"):
                counters.add("x", amount)
            with pytest.raises(Overflow, match="x"):
                (counters.incr if amount > 0 else counters.decr)("x", abs(amount))
            await counters.flush()

    asyncio.run(main())
    assert truth(any_server, ["x"]) == {b"x": 1}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("flushed", [False, True], ids=["at first", "later"])
def test_many_ones_over_the_limit(any_server: RealServer, face: str, flushed: bool) -> None:
    """A sum that grows out of range while buffered is reported by the next flush, once per counter; the rest is exact.

    What was counted before stays, what did not fit is let go of, and the counter goes on where there is room.
    """

    async def main() -> None:
        async with Either.on(face, any_server, flush_interval=60) as counters:
            for name in ("a", "b"):
                counters.incr(name, MOST - 2)
            if flushed:
                await counters.flush()
            for name in ("a", "b", "fine"):
                for _ in range(5):
                    counters.incr(name)
            told = set()
            for _ in range(2):
                with pytest.raises(Overflow) as caught:
                    await counters.flush(5)
                told.add(caught.value.counter)
            assert told == {b"a", b"b"}
            await counters.flush(5)
            flushes = counters.stats().flushes
            await asyncio.sleep(0.05)
            await counters.flush(5)
            assert counters.stats().flushes == flushes
            assert counters.stats().pending == 0
            counters.decr("a", 1)
            counters.incr("fine")
            await counters.flush(5)
            seen = await counters.get_many(["a", "b", "fine"], max_age=0)
            assert seen["fine"] == 6
            assert MOST - 2 <= seen["b"] <= MOST
            assert MOST - 3 <= seen["a"] <= MOST - 1

    asyncio.run(main())
    assert truth(any_server, ["fine"]) == {b"fine": 6}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("shards", [1, 4])
def test_sums_beyond_int64(server: RealServer, face: str, shards: int) -> None:
    """Five clients at the limit, one far below zero: the sum is exact while they live and after all have folded."""
    amounts = [MOST, MOST, MOST, MOST - 1, 2**62, -MOST, -5]

    async def main() -> None:
        everyone = [Either.on(face, server, shards=shards) for _ in amounts]
        for counters, amount in zip(everyone, amounts, strict=True):
            counters.add("x", amount)
            await counters.flush()
        assert (await everyone[0].get("x", max_age=0)) == sum(amounts) > 2**64
        assert (await everyone[-1].get_many(["x", "y"], max_age=0)) == {"x": sum(amounts), "y": 0}
        for number, counters in enumerate(everyone):
            async with counters:
                pass
            assert truth(server, ["x"]) == {b"x": sum(amounts)}, number

    asyncio.run(main())
    with server.client() as client, Counters(client) as counters:
        seen = counters.inspect("x")
        assert seen.value == sum(amounts)
        assert seen.actors == {}


def test_a_total_far_beyond_int64_folds_exactly(any_server: RealServer) -> None:
    """Bases overflow into further ones; twelve folded clients of random huge amounts keep the exact sum."""
    chance = random.Random(5)
    total = 0
    for _ in range(12):
        with redis.Redis(host=any_server.host, port=any_server.port) as client, Counters(client) as counters:
            for _ in range(3):
                amount = chance.choice([MOST // 4, -MOST // 4, 2**61 - 1, -(2**61)]) + (chance.randrange(1000) - 500)
                counters.add("x", amount)
                total += amount
        assert truth(any_server, ["x"]) == {b"x": total}


def test_a_slot_at_the_limit_after_reading_back(any_server: RealServer) -> None:
    """A client that has filled its slot stays full after a flush: the limit is of what was counted, not of a flush."""
    with any_server.client() as client, Counters(client) as counters:
        counters.incr("x", MOST)
        counters.flush()
        with pytest.raises(Overflow, match="x"):
            counters.incr("x", 2**40)
        counters.incr("y", 2**40)
        counters.flush()
        assert counters.get("x", max_age=0) == MOST
    assert truth(any_server, ["x", "y"]) == {b"x": MOST, b"y": 2**40}
