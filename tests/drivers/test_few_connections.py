"""A caller's pool with few connections: calls wait for one, and say in the end what is missing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis
import redis.asyncio

from redis_counters import Unavailable
from redis_counters.drivers import deadline
from tests.faces.either import FACES, Either, _awaited, closed
from tests.servers import RealServer

CALLERS = 20


def client_of(face: str, server: RealServer, connections: int, *, blocking: bool) -> Any:
    """Return a client that may have so many connections; its pool refuses at once, or after a moment."""
    module = redis if face == "blocking" else redis.asyncio
    kind = module.BlockingConnectionPool if blocking else module.ConnectionPool
    options = {"timeout": 0.02} if blocking else {}
    pool = kind(host=server.host, port=server.port, max_connections=connections, socket_timeout=10, **options)
    return module.Redis(connection_pool=pool)


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("connections", [1, 2])
@pytest.mark.parametrize("face", FACES)
def test_calls_wait_for_one(any_server: RealServer, face: str, connections: int, blocking: bool) -> None:
    """Twenty callers at once, of different names and kinds, while it is flushed: each has its answer."""

    async def main() -> None:
        client = client_of(face, any_server, connections, blocking=blocking)
        async with Either(face, client, flush_interval=0.01) as counters:
            for n in range(CALLERS):
                counters.incr(f"n{n}", n + 1)
            await counters.flush()
            calls = [counters.background("get", f"other{n}") for n in range(CALLERS)]
            calls += [counters.background("inspect", f"n{n}") for n in range(CALLERS)]
            calls += [counters.background("reset", f"n{n}") for n in range(CALLERS)]
            calls += [counters.background("incr_once", "once", str(n)) for n in range(CALLERS)]
            for n in range(100):
                counters.incr(f"more{n}")
            found = await asyncio.gather(*calls)
            assert found[:CALLERS] == [0] * CALLERS
            assert found[2 * CALLERS : 3 * CALLERS] == [n + 1 for n in range(CALLERS)]
            assert found[3 * CALLERS :] == [True] * CALLERS
            await counters.flush()
            assert counters.stats().failures == 0
        await closed(client)

    asyncio.run(main())


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("face", FACES)
def test_all_are_held_by_others(
    any_server: RealServer, face: str, blocking: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the call says so when its time is over, and what to set; that is no sign that Redis is away."""

    async def main() -> None:
        client = client_of(face, any_server, 1, blocking=blocking)
        async with Either(face, client, flush_interval=0.01) as counters:
            held = await _awaited(client.connection_pool.get_connection())
            with monkeypatch.context() as patch:
                patch.setattr(deadline, "CALL_TIMEOUT_S", 0.2)
                for call in (
                    lambda: counters.get("x"),
                    lambda: counters.inspect("x"),
                    lambda: counters.get_many([f"n{n}" for n in range(100)]),
                    lambda: _awaited(counters.counters.likes("l").like("ann")),
                    lambda: counters.get("x"),
                    lambda: counters.get("x"),
                ):
                    with pytest.raises(Unavailable, match="max_connections"):
                        await call()
            await _awaited(client.connection_pool.release(held))
            assert await counters.get("x") == 0
        await closed(client)

    asyncio.run(main())
