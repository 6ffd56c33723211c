"""Keyed increments of 200 callers at once, beside one EVALSHA per call; and what a remembered key takes in Redis."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import redis
import redis.asyncio

from benchmarks.harness import Row, Size, expect, ratio, take_turns
from benchmarks.server import Server
from redis_counters import Counters
from redis_counters.asyncio import Counters as AsyncioCounters
from redis_counters.drivers.redis_py.wire import words
from redis_counters.protocol.keyed.calls import Once
from redis_counters.protocol.wire.commands import Command, Script
from redis_counters.protocol.wire.keys import KeySpace

CALLERS = 200
TTL = 86_400
_LENGTH = TTL * 1000 // 2  # milliseconds of a slice


def rows(server: Server, size: Size) -> list[Row]:
    tasks = take_turns(
        size.rounds,
        lambda: asyncio.run(_tasks(server, size)),
        lambda: asyncio.run(_tasks_alone(server, size)),
    )
    threads = take_turns(size.rounds, lambda: _threads(server, size), lambda: _threads_alone(server, size))
    return [
        Row(f"incr_once() of {CALLERS} tasks, calls a second / one EVALSHA each", ratio(*tasks), at_least=5),
        Row(f"incr_once() of {CALLERS} threads, calls a second / one EVALSHA each", ratio(*threads), at_least=5),
        *_memory(server, size),
    ]


def script_for(keys: KeySpace, key: str) -> list[object]:
    """Return the command that counts one key: what a client would send that does it by itself."""
    call = Once("c", key, 1, TTL)
    bucket, shard = keys.shard_key(b"c", 0)
    number = time.time_ns() // 1_000_000 // _LENGTH
    slices = [keys.slice_key(bucket, call.ttl, number + n) for n in (1, 0, -1, -2)]
    arguments = (b"bench", _LENGTH, number, call.ttl, call.digest, call.amount)
    return words(Command(Script.ONCE_APPLY, [keys.registries[bucket], keys.index(bucket), *slices, shard], arguments))


async def _tasks(server: Server, size: Size) -> float:
    """Return calls per second."""
    server.clear()
    async with AsyncioCounters.from_url(server.url) as counters:
        await counters.incr_once("c", "warm", ttl=TTL)

        async def call(key: str) -> bool:
            return await counters.incr_once("c", key, ttl=TTL)

        rate = await _rate_of_tasks(call, size.once)
        expect(await counters.get("c", max_age=0), size.once + CALLERS + 1)
    return rate


async def _tasks_alone(server: Server, size: Size) -> float:
    server.clear()
    keys = KeySpace(b"rc", 16)
    with Counters.from_url(server.url) as counters:
        counters.incr_once("c", "warm", ttl=TTL)
    async with redis.asyncio.Redis.from_url(server.url, max_connections=CALLERS) as client:

        async def call(key: str) -> bool:
            answer: Any = await client.execute_command(*script_for(keys, key))  # type: ignore[no-untyped-call]
            return bool(answer[2] == b"1")

        rate = await _rate_of_tasks(call, size.once)
        await client.connection_pool.disconnect()
    with Counters.from_url(server.url) as counters:
        expect(counters.get("c"), size.once + CALLERS + 1)
    return rate


async def _rate_of_tasks(call: Callable[[str], Awaitable[bool]], calls: int) -> float:
    """Return calls per second. Before that each has made one call, for which a client opens its connections."""
    each = max(1, calls // CALLERS)
    await asyncio.gather(*(call(f"{number} first") for number in range(CALLERS)))

    async def work(number: int) -> int:
        return sum([await call(f"{number} {i}") for i in range(each)])

    begin = time.perf_counter()
    counted = sum(await asyncio.gather(*(work(number) for number in range(CALLERS))))
    seconds = time.perf_counter() - begin
    expect(counted, calls)
    return calls / seconds


def _threads(server: Server, size: Size) -> float:
    server.clear()
    with Counters.from_url(server.url) as counters:
        counters.incr_once("c", "warm", ttl=TTL)
        rate = _rate_of_threads(lambda key: counters.incr_once("c", key, ttl=TTL), size.once)
        expect(counters.get("c", max_age=0), size.once + CALLERS + 1)
    return rate


def _threads_alone(server: Server, size: Size) -> float:
    server.clear()
    keys = KeySpace(b"rc", 16)
    with Counters.from_url(server.url) as counters:
        counters.incr_once("c", "warm", ttl=TTL)
    with redis.Redis.from_url(server.url, max_connections=CALLERS) as client:

        def call(key: str) -> bool:
            answer: Any = client.execute_command(*script_for(keys, key))
            return bool(answer[2] == b"1")

        rate = _rate_of_threads(call, size.once)
    with Counters.from_url(server.url) as counters:
        expect(counters.get("c"), size.once + CALLERS + 1)
    return rate


def _rate_of_threads(call: Callable[[str], bool], calls: int) -> float:
    """As `_rate_of_tasks`."""
    each = max(1, calls // CALLERS)
    counted: list[int] = []
    ready = threading.Barrier(CALLERS + 1)

    def work(number: int) -> None:
        call(f"{number} first")
        ready.wait()
        counted.append(sum(call(f"{number} {i}") for i in range(each)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(CALLERS)]
    for thread in threads:
        thread.start()
    ready.wait()
    begin = time.perf_counter()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    expect(sum(counted), calls)
    return calls / seconds


def _memory(server: Server, size: Size) -> list[Row]:
    """What Redis holds per key that is remembered, and per user who likes; both with 20 bytes."""
    found: list[float] = []
    for what in ("key", "user"):
        server.clear()
        with Counters.from_url(server.url) as counters:
            counters.incr_once("c", "warm", ttl=TTL)
            counters.likes("l").like("warm")
            empty = server.memory()

            def work(number: int, counters: Counters = counters, what: str = what) -> None:
                for i in range(number, size.once, CALLERS):
                    text = f"{what}:{i:015d}"
                    if what == "key":
                        counters.incr_once("c", text, ttl=TTL)
                    else:
                        counters.likes("l").like(text)

            threads = [threading.Thread(target=work, args=(number,)) for number in range(CALLERS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            found.append((server.memory() - empty) / size.once)
            expect(counters.get("c" if what == "key" else "l", max_age=0), size.once + 1)
    note = f"of {size.once:,}"
    return [
        Row("Redis bytes per key that incr_once() remembers", found[0], unit="B", note=note),
        Row("Redis bytes per user who likes", found[1], unit="B", note=note),
    ]
