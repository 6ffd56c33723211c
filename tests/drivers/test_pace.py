"""The pace of the background: it is asked, and need not look; a round that got on is followed by the next."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redis_counters import Unavailable
from redis_counters.drivers.pacing import MAX_PAUSE_S
from redis_counters.drivers.tasks import flusher as flusher_tasks
from redis_counters.drivers.threads import flusher as flusher_threads
from tests.faces.either import FACES, Either, _awaited, truth
from tests.servers import RealServer
from tests.waiting import until_async

INTERVAL = 0.125


@pytest.mark.parametrize("face", FACES)
def test_the_first_increment_asks_the_background(
    any_server: RealServer, face: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is flushed though the background, which has just been started, would look by itself only in an hour."""
    for flusher in (flusher_threads, flusher_tasks):
        monkeypatch.setattr(flusher, "IDLE_POLL_S", 3600.0)

    counted = 0

    def flushed() -> bool:
        return truth(any_server, ["x"]) == {b"x": counted}

    async def main() -> None:
        nonlocal counted
        for _ in range(3):
            counted += 1
            async with Either.on(face, any_server, flush_interval=0.01) as counters:
                counters.incr("x")
                await until_async(flushed, "it is flushed")

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_only_a_standstill_waits_longer_and_longer(face: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round that fails after some flush got through is followed at once, then at the usual pace."""
    pauses: list[float] = []
    progress = iter([True, True, True, False, True, False])

    async def main() -> None:
        counters = Either.url(face, "memory://", flush_interval=INTERVAL)
        runner = counters.counters._runner

        def fails() -> None:
            got_on = next(progress, None)
            if got_on is None:
                return
            runner.core.writer.flushes += got_on
            raise Unavailable("x")

        async def fails_awaited() -> None:
            fails()

        async def rest(_flusher: Any, seconds: float) -> None:
            pauses.append(seconds)

        of_threads = face == "blocking"
        owner: Any = flusher_threads.Flusher if of_threads else flusher_tasks.Flusher
        monkeypatch.setattr(owner, "wait_to_retry", (lambda _, seconds: pauses.append(seconds)) if of_threads else rest)
        flusher = owner(runner.state, runner.rounds, runner.background, None)
        monkeypatch.setattr(runner.rounds, "flush", fails if of_threads else fails_awaited)
        await _awaited(flusher.retrying(flusher._flush))
        monkeypatch.undo()
        await counters.close()

    asyncio.run(main())
    at_once, usual, again, standstill, anew, last = pauses
    assert (at_once, usual, again, anew) == (0.0, INTERVAL, INTERVAL, 0.0)
    assert 0 < standstill <= MAX_PAUSE_S
    assert 0 < last <= MAX_PAUSE_S
