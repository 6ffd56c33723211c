"""A counter's shards: shard 0 tells how many before any other is used, it only grows, and no reader misses one."""

from __future__ import annotations

import asyncio
import enum
import threading
from contextlib import AsyncExitStack
from typing import Any

import pytest
import redis

from redis_counters import Counters, UsageError, WrongType
from redis_counters.protocol.wire.shard_counts import Shards
from tests.faces.either import FACES, Either, truth
from tests.servers import RealServer

MANY = 10  # clients: each has a shard of its own choice, so that all of them in one is as good as impossible


async def everyone(stack: AsyncExitStack, face: str, server: RealServer, **options: Any) -> list[Either]:
    return [await stack.enter_async_context(Either.on(face, server, **options)) for _ in range(MANY)]


def recorded(server: RealServer, name: str) -> set[tuple[int, int]]:
    """Return (shard, number of shards recorded there) of each shard key of a counter."""
    client: Any = server.client()
    found = set()
    for key in client.keys("*"):
        shard, _, its_name = key.partition(b"}:c:")[2].partition(b":")
        if shard and its_name == name.encode():
            found.add((int(shard), int(client.hget(key, "k") or 1)))
    return found


@pytest.mark.parametrize("face", FACES)
def test_the_number_of_shards(server: RealServer, face: str) -> None:
    """It comes from the option, the longest prefix that fits, or a handle: whichever says most; shard 0 records it."""
    shards = {"": 4, "a": 5, "a:b": 9, "b": 1, "ü": 6}
    expected = {"x": 4, "a:x": 5, "a:b": 9, "a:b:c": 9, "b": 1, "ü:x": 6, "handle": 7, "a:small handle": 5}

    async def main() -> None:
        async with AsyncExitStack() as stack:
            for counters in await everyone(stack, face, server, shards=shards):
                for name in expected:
                    counters.incr(name)
                counters.counter("handle", shards=7).incr()
                counters.counter("a:small handle", shards=2).incr()
                await counters.flush()
            reader = await stack.enter_async_context(Either.on(face, server))
            for name, number in expected.items():
                seen = await reader.inspect(name)
                assert seen.shards == number, name
                assert seen.parts[0].map.shards == number, name
                used = [part for part in seen.parts if part.map.actors]
                assert (len(used) > 1) == (number > 1), name
                assert seen.value == await reader.get(name, max_age=0)
        for name, number in expected.items():
            others = {(shard, k) for shard, k in recorded(server, name) if shard}
            assert (0, number) in recorded(server, name)
            assert all(k == 1 and shard < number for shard, k in others)

    asyncio.run(main())
    twice = {name.encode(): MANY * (2 if "handle" in name else 1) for name in expected}
    assert truth(server, expected) == twice


@pytest.mark.every(2, "seconds each")
@pytest.mark.parametrize("face", FACES)
def test_it_only_grows(any_server: RealServer, face: str) -> None:
    """A client that says less uses and keeps what is recorded; one that says more raises it for all."""

    async def main() -> None:
        total = 0
        for said, recorded_then in ((1, 1), (4, 4), (2, 4), (1, 4), (6, 6), (3, 6)):
            async with AsyncExitStack() as stack:
                for counters in await everyone(stack, face, any_server, shards=said):
                    counters.incr("x", 10)
                    total += 10
                    await counters.flush()
                    assert await counters.get("x", max_age=0) == total
            assert {k for shard, k in recorded(any_server, "x") if shard == 0} == {recorded_then}
            assert truth(any_server, ["x"]) == {b"x": total}

    asyncio.run(main())


@pytest.mark.parametrize(("buckets", "shards"), [(16, 16), (16, 4), (3, 10), (1, 5), (5, 5)])
def test_shards_lie_in_different_buckets(any_server: RealServer, buckets: int, shards: int) -> None:
    """As evenly as the number of buckets allows; more shards than buckets work too."""

    async def main() -> None:
        async with AsyncExitStack() as stack:
            for counters in await everyone(stack, "blocking", any_server, shards=shards, buckets=buckets):
                counters.incr("x")
                counters.decr("y", 2)
        with Counters(any_server.client()) as reader:
            parts = reader.inspect("x").parts
            assert len(parts) == shards
            per_bucket = [sum(part.bucket == b for part in parts) for b in range(buckets)]
            assert max(per_bucket) == -(-shards // buckets)

    asyncio.run(main())
    assert truth(any_server, ["x", "y"]) == {b"x": MANY, b"y": -2 * MANY}


@pytest.mark.parametrize(
    ("wanted", "kind"),
    [
        *((value, UsageError) for value in (0, -1, 1025, "2", "autos", {"a": 0}, {"a": "1"})),
        *((value, TypeError) for value in (True, 1.0, None, {1: 1}, {"a": True})),
    ],
)
def test_numbers_that_cannot_be(any_server: RealServer, wanted: Any, kind: type[Exception]) -> None:
    """Refused when the client, or the handle, is made."""
    for face in FACES:
        with pytest.raises(kind, match="shards"):
            Either.on(face, any_server, shards=wanted)
    if wanted is not None and not isinstance(wanted, dict):
        with any_server.client() as client, Counters(client) as counters, pytest.raises(kind):
            counters.counter("x", shards=wanted)


class Size(enum.IntEnum):
    FOUR = 4


def test_numbers_may_be_of_an_enumeration(any_server: RealServer) -> None:
    with any_server.client() as client, Counters(client, shards=Size.FOUR, buckets=Size.FOUR) as counters:
        counters.incr("x", Size.FOUR)
        counters.counter("y", shards=Size.FOUR).incr()
        counters.flush()
        assert counters.get_many(["x", "y"], max_age=0) == {"x": 4, "y": 1}


@pytest.mark.parametrize("face", FACES)
def test_nothing_is_in_another_shard_before_shard_0_says_so(any_server: RealServer, face: str) -> None:
    """While shard 0 cannot be written, the other shards stay empty however often it is tried; then all arrives."""
    client: Any = any_server.client()

    async def main() -> None:
        async with AsyncExitStack() as stack:
            probe = await stack.enter_async_context(Either.on(face, any_server))
            probe.incr("of this namespace")
            await probe.flush()
            shard0 = (await probe.inspect("x")).parts[0].key
            client.set(shard0, "in the way")
            writers = await everyone(stack, face, any_server, shards=4)
            for _ in range(4):
                for counters in writers:
                    counters.incr("x")
                    counters.decr("x", 3)
                    counters.incr("fine")
                    with pytest.raises(WrongType, match="x"):
                        await counters.flush(10)
                    assert recorded(any_server, "fine")
                    assert [key for key in client.keys("*:c:*:x") if key != shard0] == []
            client.delete(shard0)
            for counters in writers:
                await counters.flush(10)
            assert await probe.get("x", max_age=0) == -2 * 4 * MANY
            assert len(recorded(any_server, "x")) > 1

    asyncio.run(main())
    assert truth(any_server, ["x", "fine"]) == {b"x": -2 * 4 * MANY, b"fine": 4 * MANY}


@pytest.mark.parametrize("face", FACES)
def test_a_counter_deleted_with_all_its_shards_counts_on(any_server: RealServer, face: str) -> None:
    """Its number of shards went with it and is recorded anew: a reader that knows nothing sees all later counts."""
    client: Any = any_server.client()

    async def main() -> None:
        async with AsyncExitStack() as stack:
            writers = await everyone(stack, face, any_server, shards=4)
            for deleted in range(3):
                for counters in writers:
                    counters.incr("x", 5)
                    await counters.flush()
                assert truth(any_server, ["x"]) == {b"x": 5 * MANY}, deleted
                assert client.delete(*client.keys("*:x")) > 1

    asyncio.run(main())


def test_readers_miss_no_shard_while_they_grow(server: RealServer) -> None:
    """Writers raise the number 1 -> 4 -> 16 while readers that were never told read: values never fall."""
    issued, lock = {"begun": 0, "done": 0}, threading.Lock()
    over = threading.Event()
    errors: list[str] = []

    def write() -> None:
        for shards in (1, 4, 16):
            with redis.Redis(port=server.port) as client, Counters(client, shards={"x": shards}) as counters:
                for _ in range(8):
                    with lock:
                        issued["begun"] += 1
                    counters.incr("x")
                    counters.flush()
                    with lock:
                        issued["done"] += 1

    def read() -> None:
        with redis.Redis(port=server.port) as client:
            while not over.is_set() and not errors:
                with Counters(client, max_age=0) as counters:  # knows of one shard only
                    last = 0
                    for i in range(4):
                        with lock:
                            least = max(last, issued["done"])
                        value = counters.get("x") if i % 2 else counters.get_many(["y", "x"])["x"]
                        with lock:
                            most = issued["begun"]
                        if not least <= value <= most:
                            errors.append(f"{least} <= {int(value)} <= {most}")
                        last = value

    writers = [threading.Thread(target=write) for _ in range(4)]
    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in (*writers, *readers):
        thread.start()
    for thread in writers:
        thread.join(20)
    over.set()
    for thread in readers:
        thread.join(20)
    assert errors == []
    assert issued["done"] == issued["begun"] == 4 * 3 * 8
    assert truth(server, ["x"]) == {b"x": 4 * 3 * 8}


def test_fewer_shards_are_followed_unless_a_handle_asked_for_more() -> None:
    shards = Shards(1)
    shards.learn(b"learned", 4)
    shards.ask(b"asked for", 4)
    for name in (b"learned", b"asked for"):
        shards.lower(name, 2)
    assert (shards.of(b"learned"), shards.of(b"asked for")) == (2, 4)
