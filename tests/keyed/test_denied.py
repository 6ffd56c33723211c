"""A user who may not run a command that a keyed call needs: it is named, and nothing is half done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from redis_counters import NotPermitted
from tests.faces.either import FACES, Either, client_of, closed, truth
from tests.keyed.support import done, users
from tests.servers import RealServer

NEEDED = {
    "incr_once": ("HMGET", "HSET", "HGET", "EXISTS", "HINCRBY", "PEXPIREAT", "TIME"),
    "like": ("HMGET", "HSET", "HINCRBY", "SADD", "SISMEMBER"),
    "unlike": ("HMGET", "HSET", "HINCRBY", "SREM", "SISMEMBER"),
    "has": ("HMGET", "SMISMEMBER"),
    "seed": ("HMGET", "HSET", "HSETNX"),
    "adopt": ("GET",),
    "adopt_likes": ("SSCAN",),
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("missing", sorted({command for commands in NEEDED.values() for command in commands}))
def test_what_is_missing_is_named(server: RealServer, face: str, missing: str) -> None:
    """By every call that needs it; the others go on, and afterwards value and set agree."""
    admin: Any = server.client()
    admin.sadd("set", "x")
    refused: dict[str, str] = {}

    async def main() -> None:
        async with Either.on(face, server, shards=2) as either:
            await done(either.counters.likes("l").like("first"))
            await done(either.counters.incr_once("c", "first"))
        admin.execute_command("ACL", "SETUSER", "poor", "on", "nopass", "~*", "+@all", f"-{missing.lower()}")
        client = client_of(face, server, username="poor", password="any")  # noqa: S106 - of this test's user
        async with Either(face, client, shards=2) as either:
            counters, likes = either.counters, either.counters.likes("l")
            calls: dict[str, Callable[[], Any]] = {
                "incr_once": lambda: counters.incr_once("c", "second"),
                "like": lambda: likes.like("second"),
                "unlike": lambda: likes.unlike("first"),
                "has": lambda: likes.has("first"),
                "seed": lambda: counters.seed("s", 5, "t"),
                "adopt": lambda: counters.adopt("plain"),
                "adopt_likes": lambda: likes.adopt_likes("set"),
            }
            for name, call in calls.items():
                try:
                    await done(call())
                except NotPermitted as error:
                    refused[name] = str(error).upper()
        await closed(client)

    try:
        asyncio.run(main())
    finally:
        admin.execute_command("ACL", "DELUSER", "poor")
    assert refused.keys() >= {name for name, commands in NEEDED.items() if missing in commands}
    assert [text for text in refused.values() if missing not in text] == []
    assert truth(server, ["l"])[b"l"] == len(users(server, b"l", 2))
