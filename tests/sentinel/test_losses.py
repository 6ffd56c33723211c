"""Sentinels promote a follower that lacks acknowledged counts, while the process that counted them does nothing."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.faces.either import FACES, Either, in_turn
from tests.losses.witness import DOINGS, NAMES, count, others_see, without_looks
from tests.sentinel.clients import HandedIn
from tests.topologies import Sentinels


@pytest.mark.parametrize(("face", "opened", "doing"), in_turn(["by its URL", "handed in"], DOINGS))
def test_a_follower_that_was_left_behind(sentinels: Sentinels, face: str, opened: str, doing: str) -> None:
    """700 of 1,200 are lost; whatever the process does after that, others see them again."""
    leave_behind_and_promote(sentinels, face, opened, doing)


@pytest.mark.parametrize("opened", ["by its URL", "handed in"])
@pytest.mark.parametrize("face", FACES)
def test_a_new_primary_is_a_reason_to_look(
    sentinels: Sentinels, monkeypatch: pytest.MonkeyPatch, face: str, opened: str
) -> None:
    """Without regular looks nothing else would tell of what it lacks."""
    without_looks(monkeypatch)
    leave_behind_and_promote(sentinels, face, opened, "it counts another")


def leave_behind_and_promote(sentinels: Sentinels, face: str, opened: str, doing: str) -> None:
    pair = sentinels.pair

    async def main() -> None:
        async with AsyncExitStack() as stack:
            options = {"flush_interval": 0.02}
            if opened == "handed in":
                handed = HandedIn(face, sentinels)
                stack.push_async_callback(handed.close)
                counters = Either(face, handed.client, **options)
            else:
                counters = Either.url(face, sentinels.url, **options)
            await stack.enter_async_context(counters)
            counters.incr(NAMES.other)
            await count(counters, NAMES, 500)
            await asyncio.to_thread(pair.caught_up)
            await asyncio.to_thread(pair.pause_replication)
            await count(counters, NAMES, 700)
            pair.primary.kill()
            await asyncio.to_thread(sentinels.wait)
            await others_see(1200, counters, doing, pair.primary.url)

    asyncio.run(main())
