"""Reads that ask Redis, beside GET and MGET: counters with slots of many real writers."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import redis

from benchmarks.harness import Row, Size, environment, per_call, ratio, take_turns
from benchmarks.server import Server
from redis_counters import Counters

PAGE = 50

# Writers that end without closing leave their slots as they are, as those of live processes would be; their threads
# and connections are gone and disturb nobody.
WRITERS = """
import os, sys
from redis_counters import Counters
url, shards, writers, *names = sys.argv[1:]
every = [Counters.from_url(url, shards=int(shards), flush_interval=3600) for _ in range(int(writers))]
for counters in every:
    for name in names:
        counters.incr(name)
    counters.flush()
os._exit(0)
"""


def write(url: str, names: list[str], *, writers: int, shards: int = 1) -> None:
    """Each of so many writers has counted each name once, and has a slot."""
    command = [sys.executable, "-c", WRITERS, url, str(shards), str(writers), *names]
    subprocess.run(command, check=True, timeout=120, env=environment())


def changes(server: Server, pattern: str) -> Callable[[], object]:
    """Return what makes every shard of such keys count one more than when it was read."""
    slots = [
        (key, next(field for field in server.client.hkeys(key) if field[-1:] in (b"+", "+")))
        for key in server.client.scan_iter(pattern)
    ]

    def change() -> None:
        with server.client.pipeline(transaction=False) as pipe:
            for key, slot in slots:
                pipe.hincrby(key, slot, 1)
            pipe.execute()

    return change


def per_call_after(change: Callable[[], object], call: Callable[[], object], calls: int) -> float:
    """Seconds that one call takes when all has changed since the last one; only the call is timed."""
    took = []
    for _ in range(calls):
        change()
        begin = time.perf_counter()
        call()
        took.append(time.perf_counter() - begin)
    return statistics.median(took)


def rows(server: Server, size: Size) -> list[Row]:
    server.clear()
    page, plain = [f"page:{number}" for number in range(PAGE)], [f"plain:{number}" for number in range(PAGE)]
    folded = [f"folded:{number}" for number in range(PAGE)]
    write(server.url, ["one", *page], writers=8)
    write(server.url, ["wide"], writers=16 * 12, shards=16)
    with Counters.from_url(server.url) as counters:
        for name in folded:
            counters.incr(name, 8)
    server.client.mset(dict.fromkeys(plain, 8))
    few = max(size.reads // 4, 2)
    with server.apart(), Counters.from_url(server.url) as counters, redis.Redis.from_url(server.url) as client:
        expected = {"one": 8, "wide": 192, page[-1]: 8, folded[-1]: 8}
        if counters.get_many(expected, max_age=0) != expected:
            raise AssertionError("the writers did not write what was asked")
        every = {
            "one": changes(server, "*:c:*:one"),
            "wide": changes(server, "*:c:*:wide"),
            "page": changes(server, "*:c:*:page:*"),
        }
        get, one, wide, mget, many, rested = take_turns(
            size.rounds,
            lambda: per_call(lambda: client.get("plain:0"), size.reads),
            lambda: per_call(lambda: counters.get("one", max_age=0), size.reads),
            lambda: per_call(lambda: counters.get("wide", max_age=0), few),
            lambda: per_call(lambda: client.mget(plain), few),
            lambda: per_call(lambda: counters.get_many(page, max_age=0), few),
            lambda: per_call(lambda: counters.get_many(folded, max_age=0), few),
        )
        after = few // 2 or 1
        get_beside, one_after, get_after, wide_after, mget_after, many_after = take_turns(
            size.rounds,
            lambda: per_call_after(every["one"], lambda: client.get("plain:0"), after),
            lambda: per_call_after(every["one"], lambda: counters.get("one", max_age=0), after),
            lambda: per_call_after(every["wide"], lambda: client.get("plain:0"), after),
            lambda: per_call_after(every["wide"], lambda: counters.get("wide", max_age=0), after),
            lambda: per_call_after(every["page"], lambda: client.mget(plain), after),
            lambda: per_call_after(every["page"], lambda: counters.get_many(page, max_age=0), after),
        )
        times = 2 * size.rounds * after
        changed = {"one": 8 + times, "wide": 192 + 16 * times, page[-1]: 8 + times, folded[-1]: 8}
        if counters.get_many(changed, max_age=0) != changed:
            raise AssertionError("what had changed was not read")
    page_of = f"get_many of {PAGE}, not cached"
    return [
        _row("get, not cached, one shard of 8 slots / GET", one, get, 1.3),
        _row("get, not cached, one shard of 8 slots, changed / GET", one_after, get_beside),
        _row("get, not cached, 16 shards of 12 slots / GET", wide, get, 2.2),
        _row("get, not cached, 16 shards of 12 slots, all changed / GET", wide_after, get_after),
        _row(f"{page_of}, folded / MGET of {PAGE}", rested, mget, 2.5),
        _row(f"{page_of}, 8 slots each / MGET of {PAGE}", many, mget, 2.5),
        _row(f"{page_of}, 8 slots each, all changed / MGET of {PAGE}", many_after, mget_after),
    ]


def _row(what: str, ours: list[float], plain: list[float], at_most: float | None = None) -> Row:
    micro = [f"{statistics.median(side) * 1e6:.0f} µs" for side in (ours, plain)]
    return Row(what, ratio(ours, plain), at_most=at_most, note=", ".join(micro))
