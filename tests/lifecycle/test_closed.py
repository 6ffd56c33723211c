"""One rule for a client that is closed: `stats` and `close` go on, all other calls raise, and nothing connects anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from redis_counters import UsageError
from redis_counters.testing import LossyLink
from tests.faces.either import FACES, Either, _awaited, closed
from tests.faces.either import client_of as _client_of
from tests.servers import RealServer

CALLS: dict[str, Callable[[Any], Any]] = {
    "incr": lambda counters: counters.incr("x"),
    "decr": lambda counters: counters.decr("x"),
    "add": lambda counters: counters.add("x", 2),
    "handle.incr": lambda counters: counters.counter("x").incr(),
    "get": lambda counters: counters.get("x"),
    "get what is known": lambda counters: counters.get("x", max_age=float("inf")),
    "get_many": lambda counters: counters.get_many(["x", "y"]),
    "value": lambda counters: counters.counter("x").value(),
    "inspect": lambda counters: counters.inspect("x"),
    "reset": lambda counters: counters.reset("x"),
    "delete": lambda counters: counters.delete("x"),
    "flush": lambda counters: counters.flush(),
    "incr_once": lambda counters: counters.incr_once("o", "key"),
    "like": lambda counters: counters.likes("l").like("ann"),
    "has": lambda counters: counters.likes("l").has("ann"),
    "likes.value": lambda counters: counters.likes("l").value(),
    "seed": lambda counters: counters.seed("s", 5, "token"),
    "adopt": lambda counters: counters.adopt("plain"),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("face", FACES)
def test_after_close(any_server: RealServer, face: str, ours: bool, call: str) -> None:
    """It raises UsageError at once and sends nothing, whoever made the client of redis-py, and what it read before."""

    async def main(link: LossyLink) -> None:
        if ours:
            client, counters = None, Either.url(face, link.url)
        else:
            client = _client_of(face, any_server, port=int(link.url.rpartition(":")[2].partition("/")[0]))
            counters = Either(face, client)
        counters.incr("x", 3)
        await counters.flush()
        assert await counters.get("x") == 3
        await counters.close()
        sent = link.forwarded
        with pytest.raises(UsageError, match="closed"):
            await _awaited(CALLS[call](counters.counters))
        assert link.forwarded == sent
        assert counters.stats().pending == 0
        await counters.close()
        await closed(client)

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))
