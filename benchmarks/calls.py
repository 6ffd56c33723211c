"""What one call costs the caller: ``incr()`` in both faces and a cached ``get``, beside a method that does nothing."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable

import prometheus_client
import redis.asyncio

from benchmarks.harness import Empty, Row, Size, expect, per_call, ratio, take_turns, turns
from benchmarks.server import Server
from redis_counters import Counters
from redis_counters.asyncio import Counters as AsyncioCounters

TASKS = 1000


def rows(server: Server, size: Size) -> list[Row]:
    server.clear()
    return [
        *_blocking(server, size),
        *_threads(server, size),
        *_threads_together(server, size),
        *asyncio.run(_asyncio(server, size)),
        *asyncio.run(_tasks(server, size)),
        *_cached(server, size),
    ]


def _blocking(server: Server, size: Size) -> list[Row]:
    metric = prometheus_client.Counter("benchmark", "Nothing", registry=None)
    with Counters.from_url(server.url) as counters:
        handle = counters.counter("call")
        ours, empty, prometheus = take_turns(
            size.rounds,
            lambda: per_call(handle.incr, size.calls),
            lambda: per_call(Empty().call, size.calls),
            lambda: per_call(metric.inc, size.calls),
        )
        counters.flush()
        expect(counters.get("call", max_age=0), size.rounds * size.calls)
    note = f"{min(ours) * 1e9:.0f} ns, {min(empty) * 1e9:.0f} ns"
    return [
        Row("incr() on a handle / an empty bound-method call", ratio(ours, empty), at_most=4, note=note),
        Row("prometheus_client.Counter.inc / incr() on a handle", ratio(prometheus, ours), at_least=2),
    ]


def _threads(server: Server, size: Size) -> list[Row]:
    issued = size.threads * size.calls_per_thread
    before = sys.getswitchinterval()
    with Counters.from_url(server.url) as counters:
        handle = counters.counter("threads")

        def work() -> None:
            for _ in range(size.calls_per_thread):
                handle.incr()

        threads = [threading.Thread(target=work) for _ in range(size.threads)]
        sys.setswitchinterval(1e-6)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(before)
        counters.flush()
    with Counters.from_url(server.url) as fresh:
        found = int(fresh.get("threads", max_age=0))
    what = f"incr() from {size.threads} threads, sys.setswitchinterval(1e-6): counts lost or too many"
    return [Row(what, abs(found - issued), unit="", at_most=0, note=f"of {issued:,}")]


def _threads_together(server: Server, size: Size) -> list[Row]:
    """The same number of increments by one thread and by many: what they take from each other."""
    with Counters.from_url(server.url) as counters:
        handle = counters.counter("together")

        def rate(threads: int) -> float:
            calls = size.threads * size.calls_per_thread // threads
            go = threading.Event()

            def work() -> None:
                go.wait()
                for _ in range(calls):
                    handle.incr()

            working = [threading.Thread(target=work) for _ in range(threads)]
            for thread in working:
                thread.start()
            begin = time.perf_counter()
            go.set()
            for thread in working:
                thread.join()
            return threads * calls / (time.perf_counter() - begin)

        one, many = take_turns(size.rounds, lambda: rate(1), lambda: rate(size.threads))
        counters.flush()
        expect(counters.get("together", max_age=0), 2 * size.rounds * size.threads * size.calls_per_thread)
    what = f"incr() on one handle from {size.threads} threads, together / from one"
    return [Row(what, ratio(many, one), at_least=0.8, note=f"{max(many):,.0f}/s, {max(one):,.0f}/s")]


async def _asyncio(server: Server, size: Size) -> list[Row]:
    async with AsyncioCounters.from_url(server.url) as counters:
        handle = counters.counter("asyncio")
        ours, empty = take_turns(
            size.rounds, lambda: per_call(handle.incr, size.calls), lambda: per_call(Empty().call, size.calls)
        )
        await counters.flush()
        expect(await counters.get("asyncio", max_age=0), size.rounds * size.calls)
    note = f"{min(ours) * 1e9:.0f} ns, {min(empty) * 1e9:.0f} ns"
    return [Row("asyncio face: incr() on a handle / an empty call", ratio(ours, empty), at_most=2.5, note=note)]


async def _tasks(server: Server, size: Size) -> list[Row]:
    """Many tasks at once: each counts one and looks at the counter, or does `await redis.incr`, which tells it."""
    async with AsyncioCounters.from_url(server.url, max_age=3600) as counters, _client(server) as client:
        handle = counters.counter("tasks")
        await handle.value()

        async def ours(turns: int) -> None:
            for _ in range(turns):
                handle.incr()
                await handle.value()

        async def theirs(turns: int) -> None:
            for _ in range(turns):
                await client.incr("plain:tasks")

        async def nothing(turns: int) -> None: ...

        async def rate(work: Callable[[int], Awaitable[None]], turns: int) -> float:
            begin = time.perf_counter()
            await asyncio.gather(*[work(turns) for _ in range(TASKS)])
            return TASKS * turns / (time.perf_counter() - begin)

        await rate(theirs, 1)  # all connections are there
        sides = [(ours, 100), (theirs, 2), (ours, 1), (nothing, 1)]
        rates: list[list[float]] = [[] for _ in sides]
        for side in turns(size.rounds, len(sides)):
            rates[side].append(await rate(*sides[side]))
        mine, tasks, once, empty = rates
        await counters.flush()
        expect(await handle.value(max_age=0), 101 * TASKS * size.rounds)
        expect(await client.incrby("plain:tasks", 0), 2 * TASKS * size.rounds + TASKS)
    what = f"asyncio face: {TASKS:,} tasks, each incr() and await value()"
    return [
        Row(
            f"{what}, again and again: rate / await redis.incr()",
            ratio(mine, tasks),
            at_least=50,
            note=f"{max(mine):,.0f}/s, {max(tasks):,.0f}/s",
        ),
        Row(f"{what}, once, with making the tasks: rate / await redis.incr()", ratio(once, tasks)),
        Row(f"{TASKS:,} tasks that do nothing, with making them: rate / await redis.incr()", ratio(empty, tasks)),
    ]


def _client(server: Server) -> redis.asyncio.Redis:
    # Tasks wait for one of 50 connections: the usual pool refuses the hundred-and-first, and more are no faster.
    pool = redis.asyncio.BlockingConnectionPool.from_url(server.url, max_connections=50, timeout=60)
    return redis.asyncio.Redis.from_pool(pool)


def _cached(server: Server, size: Size) -> list[Row]:
    with Counters.from_url(server.url, max_age=3600) as counters:
        handle = counters.counter("call")
        expect(handle.value(), size.rounds * size.calls)
        ours, by_name, empty = take_turns(
            size.rounds,
            lambda: per_call(handle.value, size.calls),
            lambda: per_call(lambda: counters.get("call"), size.calls),
            lambda: per_call(Empty().call, size.calls),
        )
    note = f"{min(ours) * 1e9:.0f} ns, {min(empty) * 1e9:.0f} ns"
    return [
        Row("cached value() of a handle / an empty call", ratio(ours, empty), at_most=12, note=note),
        Row("cached get(name), with the lambda round it / an empty call", ratio(by_name, empty)),
    ]
