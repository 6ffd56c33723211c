"""Counted at import, before an event loop runs: the background begins with the first call in the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from redis_counters.asyncio import Counters
from tests.faces.either import truth
from tests.servers import RealServer
from tests.waiting import until_async


async def _stats(counters: Counters) -> object:
    return counters.stats()


async def _get(counters: Counters) -> object:
    return await counters.get("y")


async def _has(counters: Counters) -> object:
    return await counters.likes("l").has("ann")


async def _inspect(counters: Counters) -> object:
    return await counters.inspect("y")


@pytest.mark.parametrize("call", [_stats, _get, _has, _inspect])
def test_any_call_begins(any_server: RealServer, call: Callable[[Any], Awaitable[object]]) -> None:
    """What was counted before is sent though nothing more is counted; once."""
    counters = Counters.from_url(any_server.url, flush_interval=0.01)
    counters.incr("x", 3)

    async def main() -> None:
        await call(counters)
        await until_async(lambda: truth(any_server, ["x"])[b"x"] == 3, "what was counted at import has arrived")
        await until_async(lambda: counters.stats().pending == 0, "and is acknowledged")
        await counters.close()

    asyncio.run(main())
    assert truth(any_server, ["x"]) == {b"x": 3}
