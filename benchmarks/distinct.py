"""Nothing to coalesce: many names, one increment each, until all are in Redis."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import redis

from benchmarks.harness import Row, Size, left_out, ratio, take_turns
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

    def glide() -> float:
        server.clear()
        with glide_batches(server) as count:
            begin = time.perf_counter()
            count(names)
            took = time.perf_counter() - begin
        if server.client.dbsize() != len(names):
            raise AssertionError("GLIDE left keys out")
        return took

    sides: list[Callable[[], float]] = [incr, ours]
    if has_glide := find_spec("glide_sync") is not None:
        sides.append(glide)
    theirs, mine, *others = take_turns(size.rounds, *sides)
    micro = [f"{min(times) / size.distinct * 1e6:.2f} µs" for times in (mine, theirs)]
    cpu_micro = [f"{min(times) / size.distinct * 1e6:.2f} µs" for times in (cpu["ours"], cpu["incr"])]
    what = f"{size.distinct:,} distinct names, one increment each"
    by_glide = f"{what}: rate / batches of {PIPELINE:,} INCRs by valkey-glide-sync"
    rows = [
        Row(
            f"{what}: rate / pipelines of {PIPELINE:,} INCRs", ratio(theirs, mine), at_least=3.5, note=", ".join(micro)
        ),
        Row(f"{what}: server CPU / INCR's", ratio(cpu["ours"], cpu["incr"]), at_most=1.4, note=", ".join(cpu_micro)),
    ]
    if has_glide:
        note = f"{min(others[0]) / size.distinct * 1e6:.2f} µs"
        rows.append(Row(by_glide, ratio(others[0], mine), at_least=3, note=note))
    else:
        left_out(by_glide, "valkey-glide-sync is not installed")
    return [
        *rows,
        Row(f"{what}, closed and folded: rate / pipelines of INCRs", ratio(theirs, with_close)),
    ]


@contextmanager
def glide_batches(server: Server) -> Iterator[Callable[[list[str]], None]]:
    """Return what counts each name once, in batches of PIPELINE, by a client of GLIDE that is connected."""
    from glide_sync import Batch, GlideClient, GlideClientConfiguration, NodeAddress

    where = server.client.connection_pool.connection_kwargs
    address = NodeAddress(where["host"], where["port"])
    client = GlideClient.create(GlideClientConfiguration([address], request_timeout=60_000))

    def count(names: list[str]) -> None:
        for start in range(0, len(names), PIPELINE):
            batch = Batch(is_atomic=False)
            for name in names[start : start + PIPELINE]:
                batch.incr(name)
            client.exec(batch, raise_on_error=True)

    try:
        client.ping()
        yield count
    finally:
        client.close()


def pipelined_incr(client: redis.Redis, names: list[str]) -> None:
    """Each name once, in pipelines of PIPELINE."""
    for start in range(0, len(names), PIPELINE):
        with client.pipeline(transaction=False) as pipe:
            for name in names[start : start + PIPELINE]:
                pipe.incr(name)
            pipe.execute()
