"""Nothing to coalesce: many names, one increment each, until all are in Redis."""

from __future__ import annotations

import time

import redis

from benchmarks.harness import Row, Size, ratio, take_turns
from benchmarks.server import Server
from redis_counters import Counters

PIPELINE = 1000


def rows(server: Server, size: Size) -> list[Row]:
    names = [f"name:{number}" for number in range(size.distinct)]
    cpu: dict[str, list[float]] = {"ours": [], "incr": []}
    with_close: list[float] = []

    def ours() -> float:
        server.clear()
        counters = Counters.from_url(server.url)
        counters.incr("warm")  # connects and opens; both sides start connected
        counters.flush()
        begin, used = time.perf_counter(), server.cpu()
        for name in names:
            counters.incr(name)
        counters.flush()
        took = time.perf_counter() - begin
        cpu["ours"].append(server.cpu() - used)
        counters.close(timeout=60)
        with_close.append(time.perf_counter() - begin)
        with Counters.from_url(server.url) as fresh:
            found = fresh.get_many(names, max_age=0)
        if any(found[name] != 1 for name in names):
            raise AssertionError("not every name holds 1")
        return took

    def incr() -> float:
        server.clear()
        with redis.Redis.from_url(server.url) as client:
            client.ping()
            begin, used = time.perf_counter(), server.cpu()
            pipelined_incr(client, names)
            took = time.perf_counter() - begin
            cpu["incr"].append(server.cpu() - used)
        if server.client.dbsize() != len(names):
            raise AssertionError("INCR left keys out")
        return took

    theirs, mine = take_turns(size.rounds, incr, ours)
    micro = [f"{min(times) / size.distinct * 1e6:.2f} µs" for times in (mine, theirs)]
    cpu_micro = [f"{min(times) / size.distinct * 1e6:.2f} µs" for times in (cpu["ours"], cpu["incr"])]
    what = f"{size.distinct:,} distinct names, one increment each"
    return [
        Row(
            f"{what}: rate / pipelines of {PIPELINE:,} INCRs", ratio(theirs, mine), at_least=2.5, note=", ".join(micro)
        ),
        Row(f"{what}: server CPU / INCR's", ratio(cpu["ours"], cpu["incr"]), at_most=1.7, note=", ".join(cpu_micro)),
        Row(f"{what}, closed and folded: rate / pipelines of INCRs", ratio(theirs, with_close)),
    ]


def pipelined_incr(client: redis.Redis, names: list[str]) -> None:
    """Each name once, in pipelines of PIPELINE."""
    for start in range(0, len(names), PIPELINE):
        with client.pipeline(transaction=False) as pipe:
            for name in names[start : start + PIPELINE]:
                pipe.incr(name)
            pipe.execute()
