"""Sentinels fail over while several clients count: exact afterwards, and nobody had to do anything."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from redis_counters import Event, EventKind, Unavailable
from tests.faces.either import FACES, Either, truth
from tests.sentinel.clients import HandedIn
from tests.topologies import Sentinels
from tests.waiting import until_async

WRITERS = 4


class Crew:
    """Some clients that count without pause, and read what they counted, until they are told to stop."""

    def __init__(self, face: str, sentinels: Sentinels, opened: str) -> None:
        self.events: list[Event] = []
        self.handed_in = [HandedIn(face, sentinels) for _ in range(WRITERS)] if opened == "handed in" else []
        options = {"flush_interval": 0.01, "observer": self.events.append}
        self.all = [Either(face, each.client, **options) for each in self.handed_in] or [
            Either.url(face, sentinels.url, **options) for _ in range(WRITERS)
        ]
        self.counted = dict.fromkeys(("x", "y", *(f"own{n}" for n in range(WRITERS))), 0)
        self.over = False

    async def count(self, number: int) -> None:
        counters, own, least = self.all[number], f"own{number}", 0
        while not self.over:
            for name, amount in (("x", 1), ("y", -2), (own, 3)):
                counters.add(name, amount)
                self.counted[name] += amount
            await asyncio.sleep(0.001)
            if self.counted[own] % 150 == 0:
                with suppress(Unavailable):
                    value = int(await counters.background("get", own))
                    assert least <= value <= self.counted[own]
                    least = value

    async def some_more(self) -> None:
        """Each has counted, and flushed all of what it had at the call."""
        before = {counters: counters.stats().flushes for counters in self.all}
        await until_async(lambda: all(each.stats().flushes >= before[each] + 5 for each in self.all), "flushes go on")

    async def close(self) -> None:
        for counters in self.all:
            await counters.flush(30)
            await counters.close()
        for each in self.handed_in:
            await each.close()


@pytest.mark.parametrize(
    ("how", "opened"),
    [("asked to", "by its URL"), ("killed", "by its URL"), ("killed", "handed in"), ("silent", "by its URL")],
)
@pytest.mark.parametrize("face", FACES)
def test_exact_after_a_fail_over_under_load(sentinels: Sentinels, face: str, how: str, opened: str) -> None:
    """What only the old primary had is told to the new one, which every client finds by the Sentinels."""
    pair = sentinels.pair
    old = pair.primary

    async def main() -> dict[bytes, int]:
        crew = Crew(face, sentinels, opened)
        working = [asyncio.create_task(crew.count(n)) for n in range(WRITERS)]
        await crew.some_more()
        if how == "asked to":
            await asyncio.to_thread(sentinels.fail_over)
            await asyncio.to_thread(sentinels.demoted)  # until then clients may go on counting there
        else:
            await asyncio.to_thread(pair.pause_replication)
            await crew.some_more()  # which the follower lacks
            if how == "killed":
                old.kill()
            else:
                old.pause()
            await asyncio.to_thread(sentinels.wait)
        await crew.some_more()
        crew.over = True
        await asyncio.gather(*working)
        await crew.close()
        if how != "asked to":  # nobody need notice that: until it is demoted the old primary takes what it is told
            happened = {event.kind for event in crew.events}
            assert happened >= {EventKind.FLUSH_FAILED, EventKind.REGRESSED, EventKind.HEALED}
        return {name.encode(): amount for name, amount in crew.counted.items()}

    counted = asyncio.run(main())
    if how == "silent":
        old.resume()
    assert pair.primary is not old
    assert truth(pair.primary, counted) == counted
