"""What others see of a process that lives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import pytest

from redis_counters import Counters, Unavailable
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.protocol.write import looks
from tests.faces.either import Either

LIMIT = 20.0  # seconds, on a busy machine, for what takes two; what nobody notices comes back after 30, or never
DOINGS = ("it counts another", "it reads another", "it reads them", "it reads them at once", "it does nothing")


@dataclass(frozen=True)
class Names:
    """``lost`` are in buckets of their own, so that nothing that happens to the actor of ``other`` helps them."""

    lost: tuple[str, ...]
    other: str
    foreign: str  # nobody has counted it

    @classmethod
    def of(cls, keys: KeySpace, candidates: Iterable[str]) -> Names:
        """One a bucket."""
        found: dict[int, str] = {}
        for name in candidates:
            found.setdefault(keys.shard_key(name.encode(), 0)[0], name)
        other, foreign, *lost = found.values()
        return cls(tuple(lost), other, foreign)


NAMES = Names.of(KeySpace(b"rc", 16), [f"n{n}" for n in range(1000)])
assert len(NAMES.lost) == 14


def without_looks(patch: pytest.MonkeyPatch) -> None:
    """Processes look when there is a reason to, and never without one."""
    for pause in ("BUSY_PAUSE_S", "IDLE_PAUSE_S"):
        patch.setattr(looks, pause, 1e9)


async def count(counters: Either, names: Names, amount: int) -> None:
    """That much more is in Redis, of each of the names that are going to be lost."""
    for name in names.lost:
        counters.incr(name, amount)
    await counters.flush()


async def others_see(value: int, counters: Either, doing: str, url: str, names: Names = NAMES) -> float:
    """A client that has counted nothing reads this value of all that was lost, while the process does something.

    What the process reads itself is never less. Returns after how many seconds.
    """
    begun = time.monotonic()
    while True:
        seen = await asyncio.to_thread(_read, url, names.lost)
        took = time.monotonic() - begun
        if set(seen.values()) == {value}:
            return took
        assert took < LIMIT, f"others see {seen} after {took:.1f} s, and not {value}"
        with suppress(Unavailable):  # while Sentinels look for a primary, and a little longer (the breaker)
            await _do(counters, doing, value, names)
        await asyncio.sleep(0.02)


def _read(url: str, names: Iterable[str]) -> dict[str | bytes, int]:
    with Counters.from_url(url) as reader:
        return {name: int(value) for name, value in reader.get_many(names, max_age=0).items()}


async def _do(counters: Either, doing: str, value: int, names: Names) -> None:
    if doing == "it counts another":
        counters.incr(names.other)
    elif doing == "it reads another":
        await counters.get(names.foreign, max_age=0)
    elif doing.startswith("it reads them"):
        own = await counters.get_many(names.lost, max_age=0 if doing.endswith("at once") else 0.5)
        assert set(own.values()) == {value}, own
    else:
        assert doing == "it does nothing"
