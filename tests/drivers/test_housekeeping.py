"""The janitor in a client's background, in both faces; and owners that sleep while others keep house."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from redis_counters import Counters, Event, EventKind
from redis_counters.protocol import housekeeping
from tests.faces.either import FACES, Either, commandstats, reset_stats, truth
from tests.protocol.cleaning import LONG, UPKEEP, House
from tests.servers import RealServer

PATIENCE = 30.0


@pytest.fixture
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Janitors make their passes, and look at crowded shards, several times a second."""
    monkeypatch.setattr(housekeeping, "LEAST_PERIOD", 0.2)
    monkeypatch.setattr(housekeeping, "SHARE", 1e9)
    monkeypatch.setattr(housekeeping, "REPAIR_PAUSE", 0.1)


eager = pytest.mark.usefixtures("_eager")


async def until(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < end, "it did not happen"
        await asyncio.sleep(0.02)


# -- in the background


@eager
@pytest.mark.parametrize("face", FACES)
def test_an_idle_client_closes_folds_and_forgets(any_server: RealServer, face: str) -> None:
    """Whoever has counted once helps from then on; each step is told, with numbers, to the observer."""
    house, events = House(any_server.client(), buckets=16), list[Event]()
    for _ in range(60):
        house.short_lived(b"likes", 3)
    _, single = house.short_lived(b"x", 5)

    async def main() -> None:
        async with Either.on(face, any_server, observer=events.append) as counters:
            counters.incr("likes")
            await counters.flush()
            for states in ("c" * 61, "f" * 61, ""):
                house.age(LONG, b"test")
                await until(lambda states=states: house.states(b"test") == states)  # type: ignore[misc]
                assert truth(any_server, ["likes", "x"]) == {b"likes": 181, b"x": 5}

    asyncio.run(main())
    for kind in (EventKind.REAPED, EventKind.FOLDED, EventKind.CLEANED):
        told = [event for event in events if event.kind is kind]
        assert sorted(event.bucket for event in told if event.bucket is not None) == sorted(
            house.keys.bucket(name, 0) for name in (b"likes", b"x")
        )
        assert {event.actor for event in told} == {None, single}
        assert any(": 60 actors " in event.message for event in told)


@eager
@pytest.mark.parametrize("face", FACES)
def test_it_goes_on_while_its_client_counts(any_server: RealServer, face: str) -> None:
    """Flushes are not held up by a walk over many counters, nor the walk by flushes."""
    house = House(any_server.client(), buckets=16)
    names = [b"n%d" % i for i in range(400)]
    for name in names * 3:
        house.short_lived(name)
    counted = 0

    async def main() -> None:
        nonlocal counted
        async with Either.on(face, any_server, flush_interval=0.02) as counters:
            for states in ("c" * 1200, "f" * 1200):
                house.age(LONG, b"test")
                while house.states(b"test") != states:
                    counters.incr("n7")
                    counted += 1
                    flushed = counters.stats().flushed
                    await until(lambda flushed=flushed: counters.stats().flushed > flushed)  # type: ignore[misc]
            assert counters.stats().failures == 0

    asyncio.run(main())
    assert counted > 2
    assert truth(any_server, names) == {name: 3 + counted * (name == b"n7") for name in names}
    assert all(house.client.hlen(house.keys.shard_key(name, 0)[1]) == 2 for name in names)


@eager
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("many", [False, True])
def test_a_read_that_meets_a_crowd_has_it_folded(any_server: RealServer, face: str, many: bool) -> None:
    """Without a walk, and of live writers nothing."""
    house = House(any_server.client(), buckets=16)
    for name in (b"likes", b"other"):
        for _ in range(100):
            house.short_lived(name)
    house.age()
    house.clean_up()
    house.age(UPKEEP.delay + 1)  # they may be folded, but no walk is due
    writer = Counters.from_url(any_server.url)
    writer.incr("likes", 7)
    writer.flush()

    async def main() -> None:
        reset_stats(any_server)
        async with Either.on(face, any_server) as counters:
            counters.incr("x")
            await counters.flush()
            names = ["likes", "unknown"] if many else ["likes"]
            assert (await counters.get_many(names, max_age=0))["likes"] == 107
            key = house.keys.shard_key(b"likes", 0)[1]
            await until(lambda: house.client.hlen(key) == 3)  # base, dot, the writer's slot
            assert (await counters.get_many(names, max_age=0))["likes"] == 107
        assert "scan" not in commandstats(any_server)

    asyncio.run(main())
    assert house.client.hlen(house.keys.shard_key(b"other", 0)[1]) == 101
    writer.close()
    assert truth(any_server, ["likes", "other"]) == {b"likes": 107, b"other": 100}
