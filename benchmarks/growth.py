"""Whether a counter costs the same among a thousand others or a million, and after ten past actors or a thousand.

Costs are CPU, of this process and of the server together: waiting is not counted, so a busy machine moves them little.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

import redis

from benchmarks.distinct import pipelined_incr
from benchmarks.harness import Row, Size, expect
from benchmarks.server import Server
from redis_counters import Counter, Counters

PAGE, SOME = 50, 1000
FLAT = 1.2  # the dearest point of a curve, over the cheapest
FIRST_NAMES, FIRST_PAST = 1000, 10
TIMES_OVER = 15  # of which the median is taken


def rows(server: Server, size: Size) -> list[Row]:
    with server.apart():
        return [*_names(server, size), *_past(server, size)]


class Meter:
    """CPU that this process and the server have used since it was made."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._from = self._now()

    def _now(self) -> tuple[float, float]:
        return time.process_time(), self._server.cpu()

    def micro(self, things: int) -> float:
        """Return microseconds a thing."""
        client, server = (now - then for now, then in zip(self._now(), self._from, strict=True))
        return (client + server) / things * 1e6


def powers(first: int, last: int) -> list[int]:
    """Return first, ten times that, and so on, up to last."""
    return [first] if first >= last else [first, *powers(first * 10, last)]


def _names(server: Server, size: Size) -> list[Row]:
    """So many names are there. Counting some of them again, and reading pages of them; and counting all at first."""
    points = powers(FIRST_NAMES, size.grown)
    first, again, reading, incr, mget = {}, {}, {}, {}, {}  # by number of names
    for names in points:
        server.clear()
        every = [f"name:{number}" for number in range(names)]
        with Counters.from_url(server.url, max_pending=names + 1000) as counters:
            _count(counters, [f"warm:{number}" for number in range(500)])  # an actor is open in every bucket
            meter = Meter(server)
            _count(counters, every)
            first[names] = meter.micro(names)
            some = [random.sample(every, SOME) for _ in range(TIMES_OVER + 1)]
            again[names] = _median(server, SOME, [partial(_count, counters, chosen) for chosen in some])
            reading[names] = statistics.median(_pages(server, chosen) for chosen in some)
            incr[names], mget[names] = _plain(server, every, some)
            with Counters.from_url(server.url) as reader:
                parts = (every[at : at + 10_000] for at in range(0, names, 10_000))
                found = sum(sum(reader.get_many(part, max_age=0).values()) for part in parts)
            expect(found, names + SOME * len(some))
    return [
        *_curve("names", "flushed for the first time, all at once", first),
        *_curve("names", f"flushed again, {SOME:,} at once", again),
        *_curve("names", f"counted by INCR, {SOME:,} at once", incr),
        *_curve("names", f"read, in pages of {PAGE}", reading),
        *_curve("names", f"read by MGET, in pages of {PAGE}", mget),
        _flat("names", f"flushed again, {SOME:,} at once", again),
        _flat("names", f"read in pages of {PAGE}", reading),
    ]


def _pages(server: Server, names: list[str]) -> float:
    """Return what a counter costs in a page. A reader keeps what it has read: each name is read once by each."""
    with Counters.from_url(server.url) as reader:
        pages = [names[at : at + PAGE] for at in range(0, len(names), PAGE)]
        return _median(server, PAGE, [partial(reader.get_many, page, max_age=0) for page in pages])


def _plain(server: Server, every: list[str], some: list[list[str]]) -> tuple[float, float]:
    """Return what INCR and MGET cost in the same way."""
    with redis.Redis.from_url(server.url) as client:
        for at in range(0, len(every), 10_000):
            client.mset(dict.fromkeys(every[at : at + 10_000], 1))
        incr = _median(server, SOME, [partial(pipelined_incr, client, chosen) for chosen in some])
        pages = [chosen[at : at + PAGE] for chosen in some for at in range(0, SOME, PAGE)]
        return incr, _median(server, PAGE, [partial(client.mget, page) for page in pages])


def _count(counters: Counters, names: list[str]) -> None:
    for name in names:
        counters.incr(name)
    counters.flush()


def _median(server: Server, things: int, works: Sequence[Callable[[], object]]) -> float:
    """Return the median cost of a thing; the first time, on which things are connected and made, does not count."""
    costs = []
    for work in works:
        meter = Meter(server)
        work()
        costs.append(meter.micro(things))
    return statistics.median(costs[1:])


def _past(server: Server, size: Size) -> list[Row]:
    """A counter that so many actors have counted, which are closed and folded: counting it, and reading it."""
    server.clear()
    points = powers(FIRST_PAST, size.past)
    flushing, reading, gone, total = {}, {}, 0, 0
    few = max(size.reads // 10, 5)
    for past in points:
        while gone < past:
            with Counters.from_url(server.url) as ending:
                ending.incr("old")
            gone += 1
            total += 1
        with Counters.from_url(server.url) as counters, Counters.from_url(server.url) as reader:
            handle = counters.counter("old")
            handle.incr()
            counters.flush()

            def flush(handle: Counter = handle, counters: Counters = counters) -> None:
                for _ in range(few):
                    handle.incr()
                    counters.flush()

            def read(reader: Counters = reader) -> None:
                for _ in range(few):
                    reader.get("old", max_age=0)

            flushing[past] = _median(server, few, [flush] * (TIMES_OVER + 1))
            reading[past] = _median(server, few, [read] * (TIMES_OVER + 1))
            total += 1 + (TIMES_OVER + 1) * few
            expect(reader.get("old", max_age=0), total)
        gone += 1  # and this one is gone, too
    return [
        *_curve("past actors", "flushed, alone", flushing),
        *_curve("past actors", "read, alone", reading),
        _flat("past actors", "flushed alone", flushing),
        _flat("past actors", "read alone", reading),
    ]


def _curve(over: str, done: str, costs: dict[int, float]) -> list[Row]:
    """Return a row per point, for the table and the picture of their own."""
    return [
        Row(f"{at:,} {over}: CPU per counter {done}", cost, unit="µs", curve=f"{over}: {done}", at=at)
        for at, cost in costs.items()
    ]


def _flat(over: str, done: str, costs: dict[int, float]) -> Row:
    """How far apart the dearest and the cheapest point of a curve are."""
    dear, cheap = max(costs.values()), min(costs.values())
    what = f"from {min(costs):,} to {max(costs):,} {over}: CPU per counter {done}, dearest / cheapest"
    return Row(what, dear / cheap, at_most=FLAT, note=f"{dear:.2f} µs, {cheap:.2f} µs")
