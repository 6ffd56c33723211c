"""One primary of a cluster sends a byte now and then: calls end, and what lies on the others is at hand."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redis_counters import Unavailable
from redis_counters.drivers.clock import monotonic
from tests.cluster.links import Links, through
from tests.drivers.test_every_call_ends import LATE, LIMIT, soon
from tests.faces.either import FACES, Either, _awaited

NAMES = [f"n{i}" for i in range(60)]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("face", FACES)
def test_a_primary_that_drips(links: Links, face: str) -> None:
    """A page over all primaries fails in time, names on the others are read, and all is exact when it is over."""

    async def main() -> None:
        client = through(face, links, socket_timeout=5, socket_connect_timeout=5)
        async with Either(face, client, flush_interval=0.01) as counters:
            for name in NAMES:
                counters.incr(name)
            await counters.flush()
            assert set((await counters.get_many(NAMES, max_age=0)).values()) == {1}
            link = next(iter(links.values()))
            link.drip(0.5)
            for name in NAMES:
                counters.incr(name)
            with soon():
                for call in (
                    lambda: counters.get_many(NAMES, max_age=0),
                    lambda: _likes(counters.counters),
                    lambda: counters.flush(LIMIT),
                ):
                    began = monotonic()
                    with pytest.raises(Unavailable):
                        await call()
                    assert monotonic() - began < LATE
            found = [name for name in NAMES if await _read(counters, name) == 2]
            assert len(NAMES) / 3 < len(found) < len(NAMES)
            link.heal()
            await counters.flush()
            assert set((await counters.get_many(NAMES, max_age=0)).values()) == {2}
        await _awaited(client.aclose() if face == "asyncio" else client.close())

    asyncio.run(main())


async def _likes(counters: Any) -> None:
    for name in NAMES:
        await _awaited(counters.likes(name).like("ann"))


async def _read(counters: Either, name: str) -> int | None:
    """Return the value, None if there is none in time; the others' own time-outs are the usual ones."""
    try:
        with soon():
            return await counters.get(name, max_age=0)
    except Unavailable:
        return None
