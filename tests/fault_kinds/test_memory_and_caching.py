"""No entry per name for ever: what is held follows from what is counted and read at present.

That many readers share one question is in test_single_flight.py, that values do not run backwards in test_monotone.py.
"""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest

from redis_counters import BufferFull, CounterError, Unavailable
from redis_counters.protocol.read import cache, fetch
from redis_counters.protocol.read.cache import MAX_CACHED, MAX_FAILURES
from tests.faces.either import FACES, Either, client_of, closed, once
from tests.servers import RealServer

NAMES = 60_000
A_NAME = 60  # bytes; a dictionary's entry with its key takes about twice that
PATIENCE = 60.0


@pytest.mark.slow("seconds of silence")
@pytest.mark.parametrize("face", FACES)
def test_names_that_are_not_touched_any_more_are_let_go(any_server: RealServer, face: str) -> None:
    """Tens of thousands of names, once each: when they have rotated out, memory is as before, nearly."""
    client: Any = any_server.client()

    async def main() -> None:
        options: dict[str, Any] = {"rotate_slots": 500, "reassert_window": 0.02, "flush_interval": 0.005}
        async with Either.on(face, any_server, max_batch=2000, **options) as counters:

            async def count(prefix: str, names: int) -> None:
                for i in range(names):
                    counters.incr(f"{prefix}{i}")
                    if i % 5000 == 0:
                        await asyncio.sleep(0.01)
                end = time.monotonic() + PATIENCE
                number = 0
                while counters.stats().slots > 16 * 500 or counters.stats().pending:
                    assert time.monotonic() < end, counters.stats()
                    number += 1
                    counters.incr(f"last{number % 16}")  # time goes by: what is idle rotates out
                    await asyncio.sleep(0.02)
                    await counters.flush()

            await count("before", 2000)
            gc.collect()
            tracemalloc.start()
            try:
                held, _ = tracemalloc.get_traced_memory()
                await count("n", NAMES)
                gc.collect()
                now, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert now - held < NAMES * A_NAME
            assert peak - held > NAMES * A_NAME  # it was measured

    asyncio.run(main())
    assert client.dbsize() > NAMES


@pytest.mark.parametrize("face", FACES)
def test_an_outage_holds_no_more_names_than_allowed(private_server: RealServer, face: str) -> None:
    """Redis away, twenty thousand names counted and read: the cap holds, errors pile up nowhere, and it goes on."""

    async def main() -> None:
        client = client_of(face, private_server, retry=once(face))
        counters = Either(face, client, max_pending=500, flush_interval=0.005)
        try:
            counters.incr("warm")
            await counters.flush()
            private_server.kill()
            counted = set()
            for i in range(20_000):
                with suppress(BufferFull):
                    counters.incr(f"n{i}")
                    counted.add(f"n{i}")
                if i % 50 == 0:
                    await asyncio.sleep(0.001)
                    with suppress(CounterError):
                        await counters.get_many([f"unknown{i + j}" for j in range(50)], max_age=0)
            with pytest.raises(Unavailable) as caught:
                await counters.flush(0.05)
            assert set(caught.value.pending) == counted  # refused is not counted, counted is not dropped
            assert counters.stats().pending < 20_000 / 4  # looked at once per interval: what comes in between waits too
            assert len(counters.counters._core.reads.cache.failures) <= MAX_FAILURES
            private_server.restart()
            await counters.flush(PATIENCE)
            assert counters.stats().pending == 0
            assert set((await counters.get_many(counted, max_age=0)).values()) == {1}
        finally:
            with suppress(CounterError):
                await counters.close(1)
            await closed(client)

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_reading_what_nobody_counted_leaves_nothing(any_server: RealServer, face: str) -> None:
    """Three caches' worth of unknown names: no key, no more snapshots than the cache holds, nothing else."""
    client: Any = any_server.client()

    async def main() -> None:
        async with Either.on(face, any_server) as counters:
            for i in range(0, 3 * MAX_CACHED, 1000):
                values = await counters.get_many([f"unknown{i + j}" for j in range(1000)])
                assert set(values.values()) == {0}
            kept = counters.counters._core.reads.cache
            assert len(kept.snapshots) == MAX_CACHED
            assert not kept.fetching
            assert not kept.failures
            assert not counters.counters._core.writer.router.shards.known

    asyncio.run(main())
    assert client.dbsize() == 0


@pytest.mark.parametrize("face", FACES)
def test_numbers_of_shards_are_not_kept_for_ever(
    any_server: RealServer, monkeypatch: pytest.MonkeyPatch, face: str
) -> None:
    """Thousands of sharded counters are read: what is known of them is bounded, and no count is missed by that.

    Those that this process counts in, or was told of by a handle, are kept.
    """
    monkeypatch.setattr(cache, "MAX_CACHED", 200)
    monkeypatch.setattr(fetch, "MAX_KNOWN", 400)
    names = [f"n{i}" for i in range(4000)]
    own = names[:: len(names) // 20]

    async def main() -> None:
        async with Either.on(face, any_server, shards=4, max_batch=2000) as writer:
            writer.counters._core.writer.router.choice = 3  # its shard, in every counter: not 0
            for name in names:
                writer.incr(name)
        async with Either.on(face, any_server, flush_interval=60) as counters:
            counters.counters._core.writer.router.choice = 3
            known = counters.counters._core.writer.router.shards.known
            counters.counter("asked", shards=8)
            assert set((await counters.get_many(own, max_age=0)).values()) == {1}
            for name in own:
                counters.incr(name, 10)
            await counters.flush()
            for _ in range(2):
                for start in range(0, len(names), 100):
                    page = names[start : start + 100]
                    values = await counters.get_many(page, max_age=0)
                    assert values == {name: 11 if name in own else 1 for name in page}
                    assert len(known) <= 2 * (200 + len(own)) + 100
                    assert set(own) <= {name.decode() for name in known}
            assert known[b"asked"] == 8

    asyncio.run(main())
