"""A counter whose key holds something else is refused alone, by name; the others go on, and it arrives afterwards."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redis_counters import NotPermitted, WrongType
from tests.faces.either import FACES, Either, client_of, closed, truth
from tests.servers import RealServer


async def shard0(face: str, server: RealServer, name: str) -> bytes:
    async with Either.on(face, server, buckets=1) as probe:
        probe.incr("of this namespace")
        await probe.flush()
        return (await probe.inspect(name)).parts[0].key


@pytest.mark.parametrize("face", FACES)
def test_a_wrong_key_is_refused_alone(server: RealServer, face: str) -> None:
    """The flush names the counter, all others are applied; each flush says so again; after DEL all of it arrives."""
    client: Any = server.client()

    async def main() -> None:
        key = await shard0(face, server, "bad")
        client.set(key, "text")
        async with Either.on(face, server, flush_interval=60, buckets=1) as counters:
            for i in range(1, 4):
                for name in ("bad", *(f"n{j}" for j in range(50))):
                    counters.incr(name)
                counters.decr("bad", 11)
                with pytest.raises(WrongType, match="bad") as caught:
                    await counters.flush(10)
                assert caught.value.counter == b"bad"
                assert truth(server, [f"n{j}" for j in range(50)]) == {b"n%d" % j: i for j in range(50)}
                assert counters.stats().pending > 0
                with pytest.raises(WrongType, match="bad"):
                    await counters.get("bad", max_age=0)
                with pytest.raises(WrongType, match="bad"):
                    await counters.get_many(["n0", "bad"], max_age=0)
                assert client.get(key) == b"text"
            client.delete(key)
            await counters.flush(10)
            assert counters.stats().pending == 0
            assert await counters.get("bad", max_age=0) == -30

    asyncio.run(main())
    assert truth(server, ["bad", "n0"]) == {b"bad": -30, b"n0": 3}


@pytest.mark.parametrize("face", FACES)
def test_it_arrives_with_the_next_increment_too(any_server: RealServer, face: str) -> None:
    """Without a flush being asked for: once the key is gone, the next increment brings along what was kept."""
    client: Any = any_server.client()

    async def main() -> None:
        key = await shard0(face, any_server, "bad")
        client.set(key, "text")
        async with Either.on(face, any_server, flush_interval=0.01) as counters:
            counters.incr("bad", 5)
            with pytest.raises(WrongType):
                await counters.flush(10)
            client.delete(key)
            counters.incr("bad")
            for _ in range(200):
                if counters.stats().pending == 0:
                    break
                await asyncio.sleep(0.01)
            assert truth(any_server, ["bad"]) == {b"bad": 6}

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_close_does_not_pass_over_what_is_refused(any_server: RealServer, face: str) -> None:
    """Closing with a refused counter raises WrongType for it: its increments are lost now, and that is said."""
    client: Any = any_server.client()

    async def main() -> None:
        client.set(await shard0(face, any_server, "bad"), "text")
        raw = client_of(face, any_server)
        counters = Either(face, raw)
        counters.incr("bad", 5)
        counters.incr("good")
        with pytest.raises(WrongType, match="bad"):
            await counters.close()
        await counters.close()
        await closed(raw)

    asyncio.run(main())
    assert truth(any_server, ["good"]) == {b"good": 1}


@pytest.mark.parametrize("face", FACES)
def test_rotation_does_not_lose_what_is_refused(any_server: RealServer, face: str) -> None:
    """While the counter is refused the process moves from actor to actor; after DEL every increment arrives."""
    client: Any = any_server.client()

    async def main() -> None:
        key = await shard0(face, any_server, "bad")
        client.set(key, "text")
        options = {"flush_interval": 0.002, "reassert_window": 0.005, "rotate_slots": 1, "rotate_age": 0.01}
        async with Either.on(face, any_server, buckets=1, **options) as counters:
            counters.incr("bad", 100)
            for i in range(150):
                counters.incr(f"n{i}")
                await asyncio.sleep(0.002)
            client.delete(key)
            await counters.flush(10)
            assert await counters.get("bad", max_age=0) == 100

    asyncio.run(main())
    assert truth(any_server, ["bad", *(f"n{i}" for i in range(150))]) == {
        b"bad": 100,
        **{b"n%d" % i: 1 for i in range(150)},
    }


@pytest.mark.parametrize("face", FACES)
def test_a_user_without_a_permission_is_told_which(server: RealServer, face: str) -> None:
    """NotPermitted, whatever words the server has for it; nothing is applied; once it is permitted all arrives."""
    admin: Any = server.client()
    admin.execute_command("ACL", "SETUSER", "poor", "on", "nopass", "~*", "+@all", "-hset")

    async def main() -> None:
        client = client_of(face, server, username="poor", password="any")  # noqa: S106 - of this test's user
        try:
            async with Either(face, client) as counters:
                counters.incr("x", 5)
                with pytest.raises(NotPermitted, match=r"(?i)hset|permission|can't run"):
                    await counters.flush(10)
                admin.execute_command("ACL", "SETUSER", "poor", "+hset")
                await counters.flush(10)
                assert await counters.get("x", max_age=0) == 5
        finally:
            await closed(client)

    try:
        asyncio.run(main())
    finally:
        admin.execute_command("ACL", "DELUSER", "poor")
    assert truth(server, ["x"]) == {b"x": 5}
