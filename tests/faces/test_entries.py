"""Fields of other regions, and floors of resets, count as the contract of a shard says, in every way of reading."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redis_counters import Counters, WrongType
from redis_counters.protocol.wire.keys import KeySpace, bucket_of
from tests.faces.either import FACES, Either
from tests.servers import RealServer

KEYS = KeySpace(b"rc", 16)


def key(name: str, shard: int = 0) -> bytes:
    return KEYS.shard_key(name.encode(), shard)[1]


def test_the_bucket_of_a_key() -> None:
    for space in (KEYS, KeySpace(b"a:b", 7)):
        for name in (b"x", b"", b"}:9}:c:3:"):
            for shard in (0, 5):
                bucket, its_key = space.shard_key(name, shard)
                assert bucket_of(its_key) == bucket


@pytest.mark.parametrize("face", FACES)
def test_entries_count(server: RealServer, face: str) -> None:
    """In one shard and in several, alone and in a page, and inspected."""
    client: Any = server.client()

    async def main() -> None:
        async with Either.on(face, server) as counters:
            counters.incr("x", 10)
            counters.counter("wide", shards=3)
            for _ in range(3):
                counters.incr("wide", 7)
            await counters.flush()
            dot = client.hget(key("x"), "d").decode()
            client.hset(key("x"), mapping={"@us/0+": 5, "@us/0-": 1, f"~@/{dot}+": 4, "@/old+": 9, "~@/old+": 9})
            client.hset(key("wide", 1), mapping={"d": "0", "@us/0+": 100, "~@us/0+": 30})
            assert await counters.get("x", max_age=0) == 10 - 4 + 5 - 1
            assert await counters.get("wide", max_age=0) == 21 + 70
            assert await counters.get_many(["x", "wide", "none"], max_age=0) == {"x": 10, "wide": 91, "none": 0}
            counters.incr("x")
            assert await counters.get("x") == 11
            await counters.flush()
            for name, value in (("x", 11), ("wide", 91)):
                seen = await counters.inspect(name)
                assert seen.value == value == sum(part.value for part in seen.parts)
            seen = await counters.inspect("x")
            assert seen.parts[0].entries.values() == {b"": 7, b"us": 4}
            client.hset(key("x"), "@us/0+", "junk")
            with pytest.raises(WrongType, match="@us/0"):
                await counters.get("x", max_age=0)
            with pytest.raises(WrongType, match="@us/0"):
                await counters.inspect("x")

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("sign", [1, -1])
def test_what_a_peer_had_of_us_is_not_counted_beside_it(any_server: RealServer, face: str, sign: int) -> None:
    """A fail-over took it back, a peer has told us of it, and we have not told it again: it counts once."""
    client: Any = any_server.client()

    async def main() -> None:
        async with Either.on(face, any_server, flush_interval=60) as counters:
            counters.add("x", 10 * sign)
            await counters.flush()
            name, field = key("x"), "+" if sign > 0 else "-"
            (slot,) = [each for each in client.hkeys(name) if each.endswith(field.encode())]
            dot = client.hget(name, "d").decode()
            client.hset(name, mapping={slot: 4, f"@/{dot}{field}": 10})
            assert await counters.get("x", max_age=0) == 10 * sign
            counters.add("x", 3 * sign)
            assert await counters.get("x") == 13 * sign, "what nobody can have told is beyond it"
            client.hset(name, f"@/{dot}{field}", 30)
            assert await counters.get("x", max_age=0) == 30 * sign, "others had counted too, and are to tell it again"
        with Counters(client) as reader:
            assert reader.get("x") == 30 * sign

    asyncio.run(main())
