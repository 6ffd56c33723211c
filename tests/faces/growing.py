"""Clients that write to a counter on "auto" until it has grown."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from tests.faces.either import Either
from tests.waiting import until_async

# On one event loop they would flush in step if these were equal: a look, which asks twice, may see none of them.
INTERVALS = (0.012, 0.014, 0.017, 0.02, 0.023, 0.027)


async def grow(opened: Callable[..., Either], hot: str, *others: str, **options: Any) -> int:
    """Count until the first counter has got at least four shards, and they are used; return how often each was counted.

    ``opened`` makes a client, with an interval to flush in.
    """
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(opened(flush_interval=interval, shard_rate=5.0, **options))
            for interval in INTERVALS
        ]
        rounds = 0

        async def grown() -> bool:
            nonlocal rounds
            rounds += 1
            for client in clients:
                for name in (hot, *others):
                    client.incr(name)
            seen = await clients[0].inspect(hot)
            return seen.shards >= 4 and sum(bool(part.map.actors) for part in seen.parts) > 1

        await until_async(grown, f"{hot!r} grows")
        assert sum(client.stats().grown for client in clients) > 0
    return rounds * len(clients)
