"""One key among many holds something else: all others are read or done, and the error names the key."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from redis_counters import Refused, WrongType
from redis_counters.protocol.wire.keys import KeySpace
from tests.cli.commands import run
from tests.faces.either import FACES, Either
from tests.servers import RealServer

KEYS = KeySpace(b"rc", 16)
faces = pytest.mark.parametrize("face", FACES)
WRONG = ["another type", "a foreign field", "a number of shards"]


def key_of(name: str, shard: int = 0) -> bytes:
    return KEYS.shard_key(name.encode(), shard)[1]


def spoil(server: RealServer, name: str, wrong: str, shard: int = 0) -> bytes:
    """The key of a shard holds something else; return the key."""
    client: Any = server.client()
    key = key_of(name, shard)
    if wrong == "another type":
        client.delete(key)
        client.rpush(key, "somebody's")
    elif wrong == "a foreign field":
        client.hset(key, "somebody's+", "else")
    else:
        client.hset(key, "k", 5_000)
    return key


async def counted(counters: Either, *names: str) -> None:
    for number, name in enumerate(names, 1):
        counters.incr(name, number)
    await counters.flush()


async def refused(counters: Either, names: list[Any], **options: Any) -> Refused:
    with pytest.raises(WrongType) as raised:
        await counters.get_many(names, **options)
    assert isinstance(raised.value, Refused)
    return raised.value


@faces
@pytest.mark.parametrize("wrong", WRONG)
def test_get_many(server: RealServer, face: str, wrong: str) -> None:
    """The error has the values of the others by name as given, the error of each that is wrong, and their keys."""

    async def main() -> None:
        async with Either.on(face, server) as counters:
            await counted(counters, "a", "b", "c", "d", "e")
        keys = tuple(spoil(server, name, wrong) for name in ("b", "d"))
        async with Either.on(face, server) as counters:
            for _again in range(2):
                error = await refused(counters, ["a", "b", b"c", "d", "e", "none"], max_age=0)
                assert error.values == {"a": 1, b"c": 3, "e": 5, "none": 0}
                assert (error.keys, error.counter) == (keys, b"b")
                assert [(name, each.counter, each.keys) for name, each in error.errors.items()] == [
                    ("b", b"b", keys[:1]),
                    ("d", b"d", keys[1:]),
                ]
                for name, key in zip("bd", keys, strict=True):
                    assert f"counter '{name}': the key '{key.decode()}' holds something else: " in str(error)
            assert await counters.get("a") == 1
            error = await refused(counters, ["a", "b", "c"])  # some of them from the cache
            assert error.values == {"a": 1, "c": 3}
            assert await counters.get_many(["a", "c"], max_age=0) == {"a": 1, "c": 3}
            assert (await refused(counters, ["b"], max_age=0)).errors.keys() == {"b"}

    asyncio.run(main())


@faces
def test_many_that_are_wrong(any_server: RealServer, face: str) -> None:
    """Of many that are wrong the text tells of some, and of how many more; all of them are in the error."""
    names = [f"n{number}" for number in range(10)]
    keys = [spoil(any_server, name, "another type") for name in names]

    async def main() -> None:
        async with Either.on(face, any_server) as counters:
            error = await refused(counters, [*names, "good"], max_age=0)
            assert (list(error.errors), list(error.keys), error.values) == (names, keys, {"good": 0})
            assert str(error).endswith("; and 7 more")

    asyncio.run(main())


@faces
def test_own_counts_are_in_the_values(any_server: RealServer, face: str) -> None:
    """What this process has counted itself is in the values of the others, whatever is wrong beside them."""

    async def main() -> None:
        spoil(any_server, "b", "another type")
        async with Either.on(face, any_server, flush_interval=60) as counters:
            counters.incr("a", 5)
            error = await refused(counters, ["a", "b"], max_age=0)
            assert error.values == {"a": 5}
            await counters.flush()
            counters.incr("a", 2)
            error = await refused(counters, ["b", "a"], max_age=0)
            assert error.values == {"a": 7}

    asyncio.run(main())


@faces
def test_who_waits_for_another_counter_is_not_concerned(any_server: RealServer, face: str) -> None:
    """Of readers at the same time each gets what it asked for, and only that of which it asked is refused."""

    async def main() -> None:
        async with Either.on(face, any_server) as counters:
            await counted(counters, "a", "b", "c")
            spoil(any_server, "b", "another type")

            async def one(names: list[str]) -> tuple[Any, list[Any]]:
                try:
                    return await counters.background("get_many", names), []
                except WrongType as error:
                    return error.values, list(error.errors)

            asked = [["a", "b"], ["a"], ["b"], ["a", "c"], ["c", "b", "a"]] * 4
            found = await asyncio.gather(*map(one, asked))
            value = {"a": 1, "c": 3}
            assert [values for values, _ in found] == [{n: value[n] for n in names if n != "b"} for names in asked]
            assert [wrong for _, wrong in found] == [["b"] if "b" in names else [] for names in asked]

    asyncio.run(main())


@faces
@pytest.mark.parametrize("shard", [0, 2])
@pytest.mark.parametrize("wrong", WRONG[:2])
def test_inspect(any_server: RealServer, face: str, wrong: str, shard: int) -> None:
    """One shard of several is wrong: the error has the inspection of the others."""

    async def main() -> None:
        async with Either.on(face, any_server, shards=4) as counters:
            await counted(counters, "x")
            client: Any = any_server.client()
            for number in range(4):
                client.hset(key_of("x", number), mapping={"d": f"gen.{number}", "+": 10})
            client.hset(key_of("x"), "k", 4)
            before = await counters.inspect("x")
            key = spoil(any_server, "x", wrong, shard)
            with pytest.raises(WrongType, match="holds something else") as raised:
                await counters.inspect("x")
            seen = raised.value.inspection
            assert seen is not None
            assert raised.value.keys == (key,)
            assert seen.shards == 4
            assert list(seen.parts) == [part for part in before.parts if part.shard != shard]
            assert seen.value == sum(part.value for part in seen.parts)

    asyncio.run(main())


@pytest.mark.every(3, "four commands each")
@pytest.mark.parametrize("wrong", WRONG)
def test_the_command_get(any_server: RealServer, wrong: str) -> None:
    """It prints the others, in their order, names the key, and fails."""
    run(any_server, "incr", "a", "3")
    key = spoil(any_server, "b", wrong)
    result = run(any_server, "get", "c", "b", "a")
    assert (result.returncode, result.stdout) == (1, b"c\t0\na\t3\n")
    assert b"'" + key + b"' holds something else" in result.stderr
    assert result.stderr.count(b"\n") == 1
    result = run(any_server, "get", "a", "b", "--json")
    assert (result.returncode, json.loads(result.stdout)) == (1, {"a": 3})
    result = run(any_server, "get", "b")
    assert (result.returncode, result.stdout) == (1, b"")


def test_the_command_inspect(any_server: RealServer) -> None:
    """It prints the shards that can be read, names the key of the other, and fails."""
    client: Any = any_server.client()
    for number in range(3):
        client.hset(key_of("x", number), mapping={"d": f"gen.{number}", "+": 10} | ({} if number else {"k": 3}))
    key = spoil(any_server, "x", "another type", 1)
    result = run(any_server, "inspect", "x")
    assert result.returncode == 1
    assert result.stdout.startswith(b"x: 20 in 2 of 3 shards\n")
    assert b"'" + key + b"' holds something else" in result.stderr
    result = run(any_server, "inspect", "x", "--json")
    assert (result.returncode, [part["shard"] for part in json.loads(result.stdout)["shards"]]) == (1, [0, 2])


@faces
def test_what_else_names_the_key(any_server: RealServer, face: str) -> None:
    """A flush, `reset` and `delete` that are refused name the key, too."""

    async def main() -> None:
        key = spoil(any_server, "b", "another type")
        async with Either.on(face, any_server) as counters:
            for call in (counters.reset, counters.delete, counters.get):
                with pytest.raises(WrongType, match="holds something else") as raised:
                    await call("b")
                assert (raised.value.keys, raised.value.counter) == ((key,), b"b")
            counters.incr("b")
            with pytest.raises(WrongType) as raised:
                await counters.flush()
            assert (raised.value.keys, raised.value.counter) == ((key,), b"b")
            any_server.client().delete(key)

    asyncio.run(main())
