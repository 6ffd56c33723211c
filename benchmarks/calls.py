"""What one call costs the caller: ``incr()`` in both faces and a cached ``get``, beside a method that does nothing."""

from __future__ import annotations

import asyncio
import sys
import threading

import prometheus_client

from benchmarks.harness import Empty, Row, Size, expect, per_call, ratio, take_turns
from benchmarks.server import Server
from redis_counters import Counters
from redis_counters.asyncio import Counters as AsyncioCounters


def rows(server: Server, size: Size) -> list[Row]:
    server.clear()
    return [
        *_blocking(server, size),
        *_threads(server, size),
        *asyncio.run(_asyncio(server, size)),
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
        Row("incr() on a handle / an empty bound-method call", ratio(ours, empty), at_most=5, note=note),
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


async def _asyncio(server: Server, size: Size) -> list[Row]:
    async with AsyncioCounters.from_url(server.url) as counters:
        handle = counters.counter("asyncio")
        ours, empty = take_turns(
            size.rounds, lambda: per_call(handle.incr, size.calls), lambda: per_call(Empty().call, size.calls)
        )
        await counters.flush()
        expect(await counters.get("asyncio", max_age=0), size.rounds * size.calls)
    note = f"{min(ours) * 1e9:.0f} ns, {min(empty) * 1e9:.0f} ns"
    return [Row("asyncio face: incr() on a handle / an empty call", ratio(ours, empty), at_most=3, note=note)]


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
