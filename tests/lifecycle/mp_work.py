"""What children of multiprocessing run: importable, as spawn and forkserver need it. The client is made at import."""

from __future__ import annotations

import os
from typing import Any

from redis_counters import Counters

counters = Counters.from_url(os.environ["REDIS_COUNTERS_URL"], flush_interval=30)  # so only an end delivers


def count(amount: int = 100) -> int:
    for _ in range(amount):
        counters.incr("x")
    return os.getpid()


def count_with_own_client(url: str) -> None:
    own = Counters.from_url(url, flush_interval=30)
    for _ in range(100):
        own.incr("x")


def count_and_fail() -> None:
    count()
    raise SystemExit(3)


def count_in_asyncio(url: str) -> None:
    import asyncio

    from redis_counters.asyncio import Counters as AsyncioCounters

    own: Any = AsyncioCounters.from_url(url, flush_interval=30)

    async def main() -> None:
        for _ in range(100):
            own.incr("x")

    asyncio.run(main())
