"""Whatever kind of counts Redis loses, and whoever holds them: they are told again without being asked for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.faces.either import FACES, Either, in_turn
from tests.journal.processes import program, run
from tests.losses.places import PLACES, Place
from tests.losses.witness import NAMES, others_see
from tests.servers import Kind

LOSSES = ("FLUSHALL", "failed over", "switched behind open connections")
KILLED = program("""
    counters = counters_of()
    for name in arguments:
        counters.incr(name, 1200)
    await done(counters.flush())
    killed()
""")


@pytest.fixture
def made(any_kind: Kind) -> Iterator[Callable[[str], Place]]:
    with ExitStack() as stack:
        yield lambda title: PLACES[title](any_kind, stack)


def decrements(counters: Either, amount: int) -> None:
    for name in NAMES.lost:
        counters.incr(name, 2 * amount)
        counters.decr(name, amount)


def expiring(counters: Either, amount: int) -> None:
    for name in NAMES.lost:
        counters.counter(name, expire_at=time.time() + 3600).incr(amount)


def plainly(counters: Either, amount: int) -> None:
    for name in NAMES.lost:
        counters.incr(name, amount)


COUNTING: dict[str, tuple[Callable[[Either, int], None], dict[str, Any]]] = {
    "decrements": (decrements, {}),
    "counters that expire": (expiring, {}),
    "4 shards": (plainly, {"shards": 4}),
}


@pytest.mark.every(2, "a second each")
@pytest.mark.parametrize(("face", "title", "counting"), in_turn(LOSSES, COUNTING))
def test_by_a_process_that_lives(made: Callable[[str], Place], face: str, title: str, counting: str) -> None:
    """It does nothing after the loss."""
    place = made(title)
    count, options = COUNTING[counting]

    async def main() -> None:
        async with Either.url(face, place.url, flush_interval=0.02, **options) as counters:
            count(counters, 500)
            await counters.flush()
            await asyncio.to_thread(place.part)
            count(counters, 700)
            await counters.flush()
            await asyncio.to_thread(place.strike)
            await others_see(1200, counters, "it does nothing", place.holder.url)

    asyncio.run(main())


@pytest.mark.every(3, "seconds each")
@pytest.mark.parametrize("title", LOSSES)
@pytest.mark.parametrize("face", FACES)
def test_by_a_process_that_was_killed(made: Callable[[str], Place], face: str, title: str, tmp_path: Path) -> None:
    """Its journal was taken over and told before Redis lost it; the process that did so has counted nothing."""
    place = made(title)
    if title != "FLUSHALL":  # all of it is counted when the follower is already behind
        place.part()
    run(KILLED, place.url, tmp_path, "blocking", "interval", *NAMES.lost)

    async def main() -> None:
        async with Either.url(face, place.url, flush_interval=0.02, journal=tmp_path) as counters:
            await counters.flush()
            await asyncio.to_thread(place.strike)
            await others_see(1200, counters, "it does nothing", place.holder.url)

    asyncio.run(main())
