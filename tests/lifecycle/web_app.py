"""What the web servers of tests serve: each request counts, and is answered with the process that did."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import redis_counters
import redis_counters.asyncio

URL = os.environ["REDIS_COUNTERS_URL"]

# With --preload this is in the master, before it forks its workers: made, used, and its thread running.
counters = redis_counters.Counters.from_url(URL, flush_interval=float(os.environ.get("FLUSH_INTERVAL", "0.1")))
for _ in range(1000):
    counters.incr("loads")
if os.environ.get("FLUSH_AT_IMPORT"):
    counters.flush()


def wsgi(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    counters.incr("requests")
    counters.incr("amounts", 3)
    assert counters.get("requests") >= 1
    start_response("200 OK", [("Content-Type", "text/plain"), ("Connection", "close")])
    return [b"%d" % os.getpid()]


@asynccontextmanager
async def counting() -> AsyncIterator[redis_counters.asyncio.Counters]:
    async with redis_counters.asyncio.Counters.from_url(URL, flush_interval=30) as counting:
        yield counting


async def asgi(scope: dict[str, Any], receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
    """Counters are made in the lifespan's start, and closed in its end."""
    if scope["type"] == "lifespan":
        await receive()
        async with counting() as scope["state"]["counters"]:
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    own = scope["state"]["counters"]
    own.incr("requests")
    own.incr("amounts", 3)
    assert await own.get("requests") >= 1
    await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
    await send({"type": "http.response.body", "body": b"%d" % os.getpid()})
