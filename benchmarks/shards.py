"""What one shard of a hot counter costs its node: the server's CPU per slot update, with the slots of many processes.

From this follows `shard_rate`: as many updates a second as take about a tenth of a core, 15 % at most.
"""

from __future__ import annotations

from typing import Any

from benchmarks.harness import Row, Size, expect
from benchmarks.server import Server
from redis_counters import Counters
from redis_counters.drivers.redis_py.wire import words
from redis_counters.protocol.wire.commands import Command, Script
from redis_counters.protocol.wire.keys import DEFAULT_BUCKETS, KeySpace
from redis_counters.protocol.wire.options import SAFE_RATE

NAME = b"hot"
SHARE = 0.15  # of a core, that one shard may take


def rows(server: Server, size: Size) -> list[Row]:
    server.clear()
    updates = size.once
    actors = min(1_000, updates // 4)
    cost = _cost(server, actors, updates) * 1e6
    return [
        Row(f"one hot counter, {actors:,} actors: server CPU per slot update, sent alone", cost, "µs"),
        Row(
            "share of a core that a shard takes at shard_rate",
            100 * SAFE_RATE * cost / 1e6,
            "%",
            at_most=100 * SHARE,
            note=f"{SAFE_RATE:,.0f}/s; {SHARE / (cost / 1e6):,.0f}/s take {SHARE:.0%}",
        ),
    ]


def _cost(server: Server, actors: int, updates: int) -> float:
    """Return seconds of the server per flush of one slot that is there; all come by one connection, one at a time."""
    with Counters.from_url(server.url) as counters:  # makes the namespace, and has the scripts loaded
        counters.incr(NAME)
        counters.flush()
    keys = KeySpace(b"rc", DEFAULT_BUCKETS)
    bucket, shard = keys.shard_key(NAME, 0)
    registry = keys.registries[bucket]
    connection: Any = server.client

    def ask(script: Script, more: tuple[bytes, ...], *args: bytes | int) -> Any:
        return connection.execute_command(*words(Command(script, (registry, *more), args)), NEVER_DECODE=True)

    opened = [ask(Script.ACTOR_OPEN, (), b"process-%06d" % n, b"", b"bench", b"", 0)[1] for n in range(actors)]
    for actor in opened:
        ask(Script.SLOTS_MERGE, (keys.index(bucket), shard), actor, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1)
    before = server.cpu()
    for n in range(updates):
        seq = 2 + n // actors
        ask(
            Script.SLOTS_MERGE,
            (keys.index(bucket), shard),
            opened[n % actors],
            seq,
            seq - 1,
            0,
            0,
            0,
            1,
            0,
            0,
            0,
            0,
            0,
            seq,
        )
    used = server.cpu() - before
    with Counters.from_url(server.url) as counters:
        expect(counters.get(NAME, max_age=0), 1 + actors + updates)
    return used / updates
