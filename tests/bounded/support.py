"""What tests of bounded counters share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import redis

from redis_counters import Unavailable
from tests.keyed.support import KEYS, done
from tests.servers import RealServer


def key_of(name: str | bytes) -> bytes:
    """Return the Redis key of a bounded counter."""
    return KEYS.bounded_key(name.encode() if isinstance(name, str) else name)[1]


def fields(server: RealServer, name: str | bytes) -> dict[bytes, bytes]:
    """Return what Redis holds of a bounded counter."""
    with redis.Redis(host=server.host, port=server.port) as client:
        found: Any = client.hgetall(key_of(name))
        return dict(found)


def value(server: RealServer, name: str | bytes, start: int = 0) -> int:
    """Return the value, from the fields; that rights are what lies above the floor is checked."""
    found = {field: int(text) for field, text in fields(server, name).items()}
    net = found.get(b"+", 0) - found.get(b"-", 0)
    assert b"a" not in found or found[b"a"] == net >= 0
    assert b"h" not in found or found[b"h"] == found[b"c"] - start - net >= 0
    return start + net


async def insisting(call: Callable[..., Any], *arguments: Any) -> Any:
    """Return the answer of a call that is repeated until there is one."""
    while True:
        try:
            return await done(call(*arguments))
        except Unavailable:
            await asyncio.sleep(0.01)  # after some failures in a row, calls fail at once for a moment


async def background(face: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """Call so that others go on meanwhile: in a thread, where the face blocks."""
    return await call(*arguments) if face == "asyncio" else await asyncio.to_thread(call, *arguments)
