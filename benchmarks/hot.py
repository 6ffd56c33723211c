"""One hot name from one process, until everything is in Redis."""

from __future__ import annotations

import redis

from benchmarks.distinct import PIPELINE, pipelined_incr
from benchmarks.harness import Row, Size, expect, ratio, seconds, take_turns
from benchmarks.server import Server
from redis_counters import Counters


def rows(server: Server, size: Size) -> list[Row]:
    server.clear()
    looped, piped = max(size.hot // 400, 10), max(size.hot // 20, PIPELINE)
    with Counters.from_url(server.url) as counters, redis.Redis.from_url(server.url) as client:
        handle = counters.counter("hot")
        client.ping()

        def ours() -> float:
            def work() -> None:
                for _ in range(size.hot):
                    handle.incr()
                counters.flush()

            return size.hot / seconds(work)

        def loop() -> float:
            def work() -> None:
                for _ in range(looped):
                    client.incr("plain")

            return looped / seconds(work)

        names = ["plain"] * piped
        theirs, pipelines, mine = take_turns(
            size.rounds, loop, lambda: piped / seconds(lambda: pipelined_incr(client, names)), ours
        )
        expect(counters.get("hot", max_age=0), size.rounds * size.hot)
        expect(client.incrby("plain", 0), size.rounds * (looped + piped))
    note = f"{max(mine):,.0f}/s, {max(theirs):,.0f}/s"
    return [
        Row("one hot name: rate / a loop of incr()", ratio(mine, theirs), at_least=600, note=note),
        Row(
            f"one hot name: rate / pipelines of {PIPELINE:,} INCRs",
            ratio(mine, pipelines),
            at_least=25,
            note=f"{max(pipelines):,.0f}/s",
        ),
    ]
