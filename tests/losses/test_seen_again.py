"""Whatever loses it, and whatever the process does then: others see what it has counted, and so does it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.faces.either import FACES, Either, in_turn
from tests.losses.places import PLACES, Place
from tests.losses.witness import DOINGS, NAMES, count, others_see, without_looks
from tests.servers import Kind

OVER = 0.5  # seconds: a re-assert window that is soon over


@pytest.fixture
def made(any_kind: Kind) -> Iterator[Callable[[str], Place]]:
    with ExitStack() as stack:
        yield lambda title: PLACES[title](any_kind, stack)


async def count_and_lose(place: Place, counters: Either, pause: float = 0.0) -> None:
    """Of 1,200 at most 500 are left; the process has not been told."""
    counters.incr(NAMES.other)
    await count(counters, NAMES, 500)
    await asyncio.sleep(pause)
    await asyncio.to_thread(place.part)
    await count(counters, NAMES, 700)
    await asyncio.sleep(pause)
    await asyncio.to_thread(place.strike)


@pytest.mark.every(3, "a second each")
@pytest.mark.parametrize(("face", "title", "doing"), in_turn(PLACES, DOINGS))
def test_while_the_process_lives(made: Callable[[str], Place], face: str, title: str, doing: str) -> None:
    """It tells again what was lost, also where it counts nothing; its own reads show all of it from the first on."""
    place = made(title)

    async def main() -> None:
        async with Either.url(face, place.url, flush_interval=0.02) as counters:
            await count_and_lose(place, counters)
            await others_see(1200, counters, doing, place.holder.url)

    asyncio.run(main())


@pytest.mark.every(3, "seconds each")
@pytest.mark.parametrize(("face", "title", "doing"), in_turn(PLACES, ["it counts another", "it does nothing"]))
def test_after_the_window(made: Callable[[str], Place], face: str, title: str, doing: str) -> None:
    """The re-assert window was over before replication broke, and again before the loss: that makes no difference."""
    place = made(title)

    async def main() -> None:
        async with Either.url(face, place.url, flush_interval=0.02, reassert_window=OVER) as counters:
            await count_and_lose(place, counters, pause=2 * OVER)
            await others_see(1200, counters, doing, place.holder.url)

    asyncio.run(main())


@pytest.mark.parametrize("title", ["failed over", "restarted empty"])
@pytest.mark.parametrize("face", FACES)
def test_a_new_connection_is_a_reason_to_look(
    made: Callable[[str], Place], monkeypatch: pytest.MonkeyPatch, face: str, title: str
) -> None:
    """Without it, and without regular looks, nothing would tell of what other buckets have lost."""
    without_looks(monkeypatch)
    place = made(title)

    async def main() -> None:
        async with Either.url(face, place.url, flush_interval=0.02) as counters:
            await count_and_lose(place, counters)
            await others_see(1200, counters, "it counts another", place.holder.url)

    asyncio.run(main())


@pytest.mark.every(2, "a second each")
@pytest.mark.parametrize("title", PLACES)
@pytest.mark.parametrize("face", FACES)
def test_a_read_that_lacks_own_counts_is_a_reason_to_look(
    made: Callable[[str], Place], monkeypatch: pytest.MonkeyPatch, face: str, title: str
) -> None:
    """Where nothing else is: it shows all of them, and they are told again."""
    without_looks(monkeypatch)
    place = made(title)

    async def main() -> None:
        async with Either.url(face, place.url, flush_interval=0.02) as counters:
            await count_and_lose(place, counters)
            await others_see(1200, counters, "it reads them at once", place.holder.url)

    asyncio.run(main())
