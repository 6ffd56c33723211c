"""While a part of the cluster cannot be written to, the rest is flushed at the usual pace, and not at full speed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redis_counters.drivers import tasks, threads
from tests.cluster.support import KEYS, NAMES
from tests.faces.either import FACES, Either
from tests.topologies.clusters import Cluster, Moving, slot_of
from tests.waiting import until_async

ROUNDS = 20


@pytest.mark.parametrize("face", FACES)
def test_a_slot_that_is_half_way_for_long(private_cluster: Cluster, face: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every round has some success and some failure. Only the first of them is followed by another one at once."""
    parts: Any = threads if face == "blocking" else tasks
    run_of, flusher = parts.rounds.Rounds, parts.flusher.Flusher
    rounds = pauses = 0
    run, pause = run_of.flush, flusher.wait_to_retry

    def count_round(self: Any) -> Any:
        nonlocal rounds
        rounds += 1
        return run(self)

    def count_pause(self: Any, seconds: float) -> Any:
        nonlocal pauses
        pauses += seconds > 0
        return pause(self, seconds)

    monkeypatch.setattr(run_of, "flush", count_round)
    monkeypatch.setattr(flusher, "wait_to_retry", count_pause)

    async def main() -> None:
        async with Either.url(face, private_cluster.url, flush_interval=0.05) as counters:
            for name in NAMES:
                counters.incr(name)
            await counters.flush()
            registry = KEYS.registries[KEYS.bucket(b"n0", 0)]
            source = private_cluster.node_of(slot_of(registry))
            target = next(node for node in private_cluster.primaries() if node is not source)
            moving = Moving(private_cluster, slot_of(registry), target)
            moving.move(registry)
            begun, paused, times = rounds, pauses, 0

            def count_on() -> bool:
                nonlocal times
                times += 1
                for name in NAMES:
                    counters.incr(name)
                return rounds >= begun + ROUNDS

            await until_async(count_on, f"{ROUNDS} rounds, each of which has something to send")
            assert pauses - paused >= rounds - begun - 3, (rounds - begun, pauses - paused)
            moving.finish()
            await counters.flush()
            assert await counters.get_many(NAMES, max_age=0) == dict.fromkeys(NAMES, 1 + times)

    asyncio.run(main())
