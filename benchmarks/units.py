"""What one of each thing costs, for the arithmetic of "Where it ends": CPU, bytes over the wire, bytes in Redis.

These are figures of this machine, and reported only.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from zlib import crc32

from benchmarks.harness import Row, Size, expect
from benchmarks.reads import write
from benchmarks.server import Server
from redis_counters import Counters
from redis_counters.protocol.wire.keys import DEFAULT_BUCKETS

INCREMENT = "unit: client CPU per increment of one name, with the loop round it"
FLUSH = "unit: server CPU per flush of one counter"
SCRIPT = "unit: server CPU per script of a flush of 16 counters, each in a bucket of its own"
FLUSH_BYTES = "unit: bytes sent per flush of one counter"
FLUSH_CLIENT = "unit: client CPU per flush of one counter"
COUNTER = "unit: server CPU per counter of a flush, every name different"
COUNTER_BYTES = "unit: bytes sent per counter of a flush, every name different"
COUNTER_CLIENT = "unit: client CPU per counter of a flush, every name different"
COUNTER_MEMORY = "unit: Redis bytes per counter with one slot"
SLOT_MEMORY = "unit: Redis bytes per slot, 12 slots in a shard"
CROWD_MEMORY = "unit: Redis bytes per slot, 1,000 slots in a shard"

ROUNDS = 3


def rows(server: Server, size: Size) -> list[Row]:
    return [*_hot(server, size), *_distinct(server, size), *_memory(server)]


class Spent:
    """CPU of this process and of the server, and bytes that the server was sent, since it was made."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._from = self._now()

    def _now(self) -> tuple[float, float, float]:
        sent = float(self._server.client.info("stats")["total_net_input_bytes"])
        return time.process_time() * 1e6, self._server.cpu() * 1e6, sent

    def per(self, things: int) -> list[float]:
        """Return microseconds, microseconds and bytes a thing."""
        return [(now - then) / things for now, then in zip(self._now(), self._from, strict=True)]


def _hot(server: Server, size: Size) -> list[Row]:
    server.clear()
    flushes = size.reads
    with Counters.from_url(server.url) as counters:
        handle = counters.counter("hot")

        def count() -> None:
            for _ in range(size.hot):
                handle.incr()
            counters.flush()

        def flush() -> None:
            for _ in range(flushes):
                handle.incr()
                counters.flush()

        def flush_wide() -> None:
            for _ in range(flushes):
                for name in apart:
                    counters.incr(name)
                counters.flush()

        apart = list({crc32(b"%d" % number) % DEFAULT_BUCKETS: str(number) for number in range(1000)}.values())
        flush()
        flush_wide()
        _, script, _ = _median(server, flush_wide, flushes * len(apart))
        client, _, _ = _median(server, count, size.hot)
        flush_client, flush_server, flush_bytes = _median(server, flush, flushes)
        expect(counters.get("hot", max_age=0), ROUNDS * size.hot + (ROUNDS + 1) * flushes)
    return [
        Row(INCREMENT, client * 1000, unit="ns"),
        Row(FLUSH, flush_server, unit="µs"),
        Row(SCRIPT, script, unit="µs"),
        Row(FLUSH_CLIENT, flush_client, unit="µs"),
        Row(FLUSH_BYTES, flush_bytes, unit="B"),
    ]


def _distinct(server: Server, size: Size) -> list[Row]:
    server.clear()
    names = iter(range(10 * size.distinct))
    with Counters.from_url(server.url) as counters:

        def count() -> None:
            for _ in range(size.distinct):
                counters.incr(f"name:{next(names)}")
            counters.flush()

        count()
        client, cpu, sent = _median(server, count, size.distinct)
        values = counters.get_many([f"name:{number}" for number in range(size.distinct)], max_age=0)
        expect(sum(values.values()), size.distinct)
    before = server.memory()
    server.clear()
    per = (before - server.memory()) / (ROUNDS + 1) / size.distinct
    return [
        Row(COUNTER, cpu, unit="µs"),
        Row(COUNTER_CLIENT, client, unit="µs"),
        Row(COUNTER_BYTES, sent, unit="B"),
        Row(COUNTER_MEMORY, per, unit="B"),
    ]


def _median(server: Server, work: Callable[[], None], things: int) -> list[float]:
    spent = []
    for _ in range(ROUNDS):
        before = Spent(server)
        work()
        spent.append(before.per(things))
    return [statistics.median(column) for column in zip(*spent, strict=True)]


def _memory(server: Server) -> list[Row]:
    """A shard as 12 processes make it; and one of 1,000 with fields that are as long."""
    server.clear()
    write(server.url, ["one"], writers=12)
    (key,) = server.client.scan_iter(match="*:c:0:one")
    slots = {field: count for field, count in server.client.hgetall(key).items() if field != b"d"}
    few = float(server.client.memory_usage(key, samples=0) or 0)
    longest = max(map(len, slots))
    crowd = {str(number).rjust(longest - 1, "0") + "+": 10**9 for number in range(1000)}
    server.client.hset("crowd", mapping=crowd)  # type: ignore[arg-type]  # redis-py names a narrower type
    many = float(server.client.memory_usage("crowd", samples=0) or 0)
    return [Row(SLOT_MEMORY, few / len(slots), unit="B"), Row(CROWD_MEMORY, many / len(crowd), unit="B")]
