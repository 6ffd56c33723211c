"""Bounded counters in either face: what is added and spent, keys, what is left, and what is refused in which words."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from redis_counters import (
    InsufficientRights,
    KeyConflict,
    Outcome,
    Overflow,
)
from redis_counters.crdt.shard_fields import INT64_MAX
from tests.bounded.support import value
from tests.faces.either import FACES, Either, truth
from tests.keyed.support import age_records, done, records
from tests.servers import RealServer

both = pytest.mark.parametrize("face", FACES)


@both
def test_stock(server: RealServer, face: str) -> None:
    """From two clients: what is delivered is sold to the last piece, and not one more."""

    async def main() -> None:
        async with Either.on(face, server) as one, Either.on(face, server) as other:
            stock, same = one.counters.bounded("sku:1", floor=0), other.counters.bounded(b"sku:1", floor=0)
            assert [await done(stock.value()), await done(stock.available())] == [0, 0]
            assert await done(stock.try_spend(1)) is False
            await done(stock.add(100, key="delivery-7"))
            await done(same.add(100, "delivery-7"))
            assert await done(same.try_spend(60, key="order-17")) is True
            assert await done(stock.try_spend(60, key="order-17")) is True
            assert await done(stock.try_spend(41, key="order-18")) is False
            await done(stock.spend(40))
            assert await done(same.try_spend(1)) is False
            assert await done(same.value()) == 0
            assert await done(same.rights()) == {"main": 0}
            assert await done(same.give_back("order-17")) is True
            assert await done(stock.give_back("order-17")) is False
            assert await done(stock.give_back("order-18")) is False
            assert await done(stock.available()) == 60

    asyncio.run(main())
    assert value(server, "sku:1") == 60


@both
def test_a_quota(any_server: RealServer, face: str) -> None:
    """With a cap alone adding may be refused, and spending never is."""

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            quota = either.counters.bounded("quota", cap=10)
            assert await done(quota.try_add(11)) is False
            assert await done(quota.try_add(10, key="a")) is True
            with pytest.raises(InsufficientRights) as caught:
                await done(quota.add(1))
            assert (caught.value.needed, caught.value.available) == (1, 0)
            await done(quota.spend(15, key="s"))
            assert await done(quota.value()) == -5
            assert await done(quota.available()) is None
            assert await done(quota.rights()) == {}
            await done(quota.add(15))
            with pytest.raises(InsufficientRights) as caught:
                await done(quota.give_back("s"))
            assert caught.value.available == 0
            await done(quota.spend(15))
            assert await done(quota.give_back("s")) is True

    asyncio.run(main())
    assert value(any_server, "quota") == 10


@both
def test_seats(any_server: RealServer, face: str) -> None:
    """With both bounds the value stays between them; it starts at the floor, which may be below 0."""

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            seats = either.counters.bounded("seats", floor=-2, cap=3)
            assert await done(seats.value()) == -2
            assert [await done(seats.try_add(n)) for n in (6, 5, 1)] == [False, True, False]
            assert [await done(seats.try_spend(n)) for n in (6, 5, 1)] == [False, True, False]
            assert await done(seats.value()) == -2

    asyncio.run(main())


@both
def test_what_is_not_enough_is_told(any_server: RealServer, face: str) -> None:
    """How much was asked for, and how much there is; nothing is changed, and the error goes to other processes."""

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            stock = either.counters.bounded("x", floor=0)
            await done(stock.add(3))
            for _ in range(2):
                with pytest.raises(InsufficientRights) as caught:
                    await done(stock.spend(5, key="k"))
                error = caught.value
                assert str(error) == "counter 'x': 3 may be spent, not 5; nothing was changed"
                assert (error.needed, error.available, error.retry_after, error.counter) == (5, 3, None, b"x")
                assert error.outcome is Outcome.NOT_APPLIED
            for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301 - our own
                assert (other.needed, other.available, str(other)) == (5, 3, str(error))
            assert await done(stock.value()) == 3

    asyncio.run(main())


@both
def test_a_key_has_one_answer(any_server: RealServer, face: str) -> None:
    """Done or refused, also when there is enough by then; something else under that key is a conflict, and says so."""

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            stock = either.counters.bounded("x", floor=0)
            assert await done(stock.try_spend(3, key="early")) is False
            await done(stock.add(10, key="a"))
            assert await done(stock.try_spend(3, key="early")) is False
            await done(stock.spend(4, key="s"))
            await done(stock.spend(2, key="returned"))
            assert await done(stock.give_back("returned")) is True
            assert await done(stock.give_back("not yet")) is False
            conflicts: list[tuple[Callable[[], Any], int, str]] = [
                (lambda: stock.add(11, key="a"), 10, "this key has added 10 already, and does not add 11 as well"),
                (lambda: stock.try_spend(10, key="a"), 10, "has added 10 already, and does not spend 10 as well"),
                (lambda: stock.try_spend(5, key="s"), 4, "this key has spent 4 already, and does not spend 5 as well"),
                (lambda: stock.try_spend(1, key="early"), 3, "was refused to spend 3 already, and does not spend 1"),
                (lambda: stock.give_back("a"), 10, "this key has added 10: only what was spent is given back"),
                (
                    lambda: stock.try_spend(2, key="returned"),
                    2,
                    "was given back, or was to be; to spend again, use a new",
                ),
                (lambda: stock.spend(2, key="not yet"), 0, "was given back, or was to be; to spend again, use a new"),
            ]
            for call, counted, told in conflicts:
                with pytest.raises(KeyConflict, match=told) as caught:
                    await done(call())
                assert str(caught.value).startswith("counter 'x': ")
                assert str(caught.value).endswith("; nothing was changed")
                assert (caught.value.counted, caught.value.counter) == (counted, b"x")
            assert await done(stock.value()) == 6

    asyncio.run(main())


@both
def test_a_key_belongs_to_its_counter(any_server: RealServer, face: str) -> None:
    """The same key in another counter, or with `incr_once`, is another; a plain counter of that name is another too."""

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            one, other = (either.counters.bounded(name, floor=0) for name in ("ab", "a"))
            await done(one.add(5, key="c"))
            await done(other.add(7, key="bc"))
            assert await done(either.counters.incr_once("ab", "c", 3)) is True
            assert await done(either.counters.incr_once("ab", "c", 3)) is False
            either.incr("ab", 30)
            assert [await done(one.value()), await done(other.value()), await either.get("ab")] == [5, 7, 33]

    asyncio.run(main())
    assert truth(any_server, ["ab", "a"]) == {b"ab": 33, b"a": 0}


@both
def test_a_key_holds_for_a_day(any_server: RealServer, face: str) -> None:
    """Afterwards it spends once more, and there is nothing to give back. Without a key a record is over in a minute."""

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            stock = either.counters.bounded("x", floor=0)
            await done(stock.add(10))
            await done(stock.spend(1, key="a"))
            await done(stock.spend(1, key="b"))
            age_records(any_server, 24 * 3_600_000 - 60_000)
            await done(stock.spend(1, key="a"))
            assert await done(stock.value()) == 8
            age_records(any_server, 60_000)
            await done(stock.spend(1, key="a"))
            assert await done(stock.give_back("b")) is False
            assert await done(stock.value()) == 7

    asyncio.run(main())
    client = any_server.client()
    for key in records(any_server):
        ttl = int(key.split(b":")[-2])
        assert ttl in (86_400_000, 60_000)
        assert client.pttl(key) <= 2 * ttl


@both
def test_names_and_keys_are_any_bytes(any_server: RealServer, face: str) -> None:
    names: list[str | bytes] = ["", "ü:{x}*\n\0", "{", b"\xff\x80", b"\r\n$3\r\n", "x" * 10_000]
    keys: list[str | bytes] = [b"\0", " ", "☃", b"\xff" * 1024, b"\r\n", "1"]

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            for name in names:
                stock = either.counters.bounded(name, floor=0)
                for key in [*keys, *keys]:
                    await done(stock.add(1, key))
                assert await done(stock.value()) == len(keys)
                assert stock.name in (name, name if isinstance(name, str) else name.decode(errors="replace"))

    asyncio.run(main())


@both
def test_int64_is_the_edge(any_server: RealServer, face: str) -> None:
    """Amounts up to it are exact; what a total has no room for is refused, and named; values may be beyond."""

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            stock = either.counters.bounded("x", floor=0)
            await done(stock.add(INT64_MAX))
            for amount in (1, INT64_MAX, INT64_MAX + 1):
                with pytest.raises(Overflow, match="'x'"):
                    await done(stock.add(amount, "k"))
            assert await done(stock.try_spend(INT64_MAX)) is True
            assert await done(stock.value()) == 0
            high = either.counters.bounded("high", floor=2**62)
            await done(high.add(INT64_MAX))
            assert await done(high.value()) == 2**62 + INT64_MAX

    asyncio.run(main())


@both
def test_everything_in_redis_is_lost(any_server: RealServer, face: str) -> None:
    """After FLUSHALL the stock is gone with all keys, and is made anew by whoever delivers; the namespace too."""
    client = any_server.client()

    async def main() -> None:
        async with Either.on(face, any_server) as either:
            stock = either.counters.bounded("x", floor=0)
            for _ in range(3):
                assert await done(stock.try_spend(1, key="s")) is False
                await done(stock.add(5, key="a"))
                assert await done(stock.try_spend(5)) is True
                assert client.hget("rc:meta", "buckets") == b"16"
                client.flushall()

    asyncio.run(main())


@both
def test_in_memory(face: str) -> None:
    async def main() -> None:
        async with Either.url(face, "memory://") as either:
            stock = either.counters.bounded("x", floor=0, cap=10)
            assert [await done(stock.try_add(n)) for n in (11, 10, 1)] == [False, True, False]
            assert [await done(stock.try_spend(n, key=f"{n}")) for n in (11, 10, 1)] == [False, True, False]
            assert await done(stock.give_back("10")) is True
            assert await done(stock.rights()) == {"main": 10}

    asyncio.run(main())
