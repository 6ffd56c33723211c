"""Keys vanish or change under a client: what was deleted stays deleted, what is counted later counts, nothing twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.faces.either import FACES, Either, truth
from tests.servers import RealServer


def keys_of(server: RealServer, name: str) -> list[bytes]:
    client: Any = server.client()
    return list(client.keys(f"*:c:*:{name}"))


def delete(server: RealServer, name: str) -> None:
    found = keys_of(server, name)
    assert found
    client: Any = server.client()
    client.delete(*found)


def registries(server: RealServer) -> dict[bytes, dict[bytes, bytes]]:
    """Return every registry's records of actors, by registry."""
    client: Any = server.client()
    return {
        key: {field: value for field, value in client.hgetall(key).items() if field.count(b".") == 2}
        for key in client.keys("*}:a")
    }


def set_states(server: RealServer, state: bytes) -> int:
    """Every actor's record says `state`, as if somebody else had closed (c) or folded (f) it; return how many."""
    client: Any = server.client()
    changed = 0
    for registry, records in registries(server).items():
        for actor, record in records.items():
            client.hset(registry, actor, state + record[1:])
            changed += 1
    return changed


@pytest.mark.parametrize("face", FACES)
def test_a_deleted_counter_counts_from_0_again(server: RealServer, face: str) -> None:
    """DEL takes what was acknowledged; increments before and after the next flush count, by both signs, repeatedly."""

    async def main() -> None:
        async with Either.on(face, server, flush_interval=60) as counters:
            counters.incr("kept", 3)
            for round_ in range(4):
                counters.incr("x", 10)
                counters.decr("x", 2)
                await counters.flush()
                assert await counters.get("x", max_age=0) == 8
                delete(server, "x")
                assert await counters.get("x", max_age=0) == 0
                counters.incr("x", 5)
                assert await counters.get("x", max_age=0) == 5
                if round_ % 2:
                    counters.decr("x", 1)
                await counters.flush()
                left = 4 if round_ % 2 else 5
                assert await counters.get("x", max_age=0) == left
                assert truth(server, ["x"]) == {b"x": left}
                counters.incr("x", 1)
                counters.decr("x", 1)
                await counters.flush()
                assert truth(server, ["x", "kept"]) == {b"x": left, b"kept": 3}
                delete(server, "x")

    asyncio.run(main())
    assert truth(server, ["x", "kept"]) == {b"x": 0, b"kept": 3}


@pytest.mark.parametrize("face", FACES)
def test_deleted_while_increments_wait(any_server: RealServer, face: str) -> None:
    """What was not acknowledged when the key went is not lost with it."""

    async def main() -> None:
        async with Either.on(face, any_server, flush_interval=60) as counters:
            counters.incr("x", 10)
            await counters.flush()
            counters.incr("x", 7)
            delete(any_server, "x")
            assert await counters.get("x", max_age=0) == 7
            await counters.flush()
            assert await counters.get("x", max_age=0) == 7
            delete(any_server, "x")
        assert keys_of(any_server, "x") == []

    asyncio.run(main())
    assert truth(any_server, ["x"]) == {b"x": 0}


@pytest.mark.parametrize("face", FACES)
def test_deleted_among_many(any_server: RealServer, face: str) -> None:
    """Some of hundreds of counters of a chunk are deleted: those count anew, all others go on."""
    names = [f"n{i}" for i in range(300)]

    async def main() -> None:
        async with Either.on(face, any_server, flush_interval=60, buckets=2) as counters:
            for name in names:
                counters.incr(name, 10)
            await counters.flush()
            client: Any = any_server.client()
            gone = names[::7]
            client.delete(*(key for name in gone for key in keys_of(any_server, name)))
            for name in names:
                counters.incr(name)
                counters.decr(name, 3)
            await counters.flush()
            expected = {name: -2 if name in gone else 8 for name in names}
            assert await counters.get_many(names, max_age=0) == expected
            assert truth(any_server, names) == {name.encode(): value for name, value in expected.items()}

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_everything_is_gone(server: RealServer, face: str) -> None:
    """FLUSHALL looks like a fail-over to an empty server: a client asserts what it still holds, exactly once."""

    async def main() -> None:
        async with Either.on(face, server, flush_interval=60, shards=3) as counters:
            for name in ("x", "y"):
                counters.incr(name, 10)
                counters.decr(name, 4)
            await counters.flush()
            server.client().flushall()
            counters.incr("x")
            counters.incr("y")
            await counters.flush()
            assert await counters.get_many(["x", "y"], max_age=0) == {"x": 7, "y": 7}
            server.client().flushall()
            counters.incr("x")
            assert await counters.get("x") == 8

    asyncio.run(main())
    value = truth(server, ["x"])[b"x"]
    assert value == 8


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("then", ["flush", "close"])
def test_a_registry_is_gone(any_server: RealServer, face: str, then: str) -> None:
    """The actor's record is put back, or the counts move to a new actor; nothing counts twice."""

    async def main() -> None:
        client: Any = any_server.client()
        async with Either.on(face, any_server, flush_interval=60) as counters:
            for i in range(1, 6):
                counters.incr("x", 10)
                counters.incr("idle" if i == 1 else "x")
                await counters.flush()
                client.delete(*client.keys("*}:a"))
                if then == "flush":
                    counters.incr("x")
                    await counters.flush()
                    assert await counters.get("x", max_age=0) == 11 * i + i - 1
                    assert truth(any_server, ["x"]) == {b"x": 11 * i + i - 1}

    asyncio.run(main())
    assert truth(any_server, ["x", "idle"]) == {b"x": 59 if then == "flush" else 54, b"idle": 1}


@pytest.mark.parametrize("face", FACES)
def test_an_actor_closed_by_somebody_else_is_opened_again(any_server: RealServer, face: str) -> None:
    """A record that says closed stops no count, when flushing, reading or closing."""

    async def main() -> None:
        async with Either.on(face, any_server, flush_interval=60) as counters:
            for i in range(1, 5):
                counters.incr("x", 10)
                counters.decr("x")
                await counters.flush()
                assert set_states(any_server, b"c") >= 1
                assert await counters.get("x", max_age=0) == 9 * i
                assert truth(any_server, ["x"]) == {b"x": 9 * i}
            assert len([r for records in registries(any_server).values() for r in records]) == 1

    asyncio.run(main())
    assert truth(any_server, ["x"]) == {b"x": 36}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("waiting", [0, 7])
def test_an_actor_folded_by_somebody_else_goes_on_as_another(any_server: RealServer, face: str, waiting: int) -> None:
    """Its slots are in the base, its record says so: what was not across goes to a new actor, once."""
    fold: Any = _folder(any_server)

    async def main() -> None:
        total = 0
        async with Either.on(face, any_server, flush_interval=60) as counters:
            for i in range(1, 5):
                counters.incr("x", 10)
                counters.decr("x", 1)
                total += 9
                await counters.flush()
                assert await counters.get("x", max_age=0) == total
                counters.add("x", waiting)
                total += waiting
                assert fold("x") == 1, i
                assert await counters.get("x", max_age=0) == total
                assert await counters.get("x") == total
                counters.incr("x")
                total += 1
                await counters.flush()
                assert await counters.get("x", max_age=0) == total
                assert truth(any_server, ["x"]) == {b"x": total}

    asyncio.run(main())
    assert truth(any_server, ["x"]) == {b"x": 4 * (9 + waiting + 1)}


def _folder(server: RealServer) -> Any:
    """Return a janitor: it closes and folds, by the library's own script, every open actor in a counter's shard 0."""
    from redis_counters.protocol.wire import scripts
    from redis_counters.protocol.wire.commands import Script

    client: Any = server.client()

    def fold(name: str) -> int:
        folded = 0
        (key,) = keys_of(server, name)
        registry = key.partition(b":c:")[0] + b":a"
        for actor, record in registries(server)[registry].items():
            if record.startswith(b"o "):
                client.hset(registry, actor, b"c" + record[1:])
                reply = client.eval(scripts.text(Script.SLOTS_FOLD), 2, registry, key, actor, 0)
                assert reply[0] == b"OK"
                folded += 1
        return folded

    return fold
