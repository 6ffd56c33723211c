"""Servers, proxies and users without a command: it is not needed, or named at once; no backlog grows in silence."""

from __future__ import annotations

import asyncio
import inspect
import re
from contextlib import suppress
from typing import Any

import pytest

from redis_counters import CounterError, Event, EventKind, NotPermitted, Refused
from tests.faces.either import FACES, Either, client_of, closed, truth
from tests.servers import Kind, RealServer

NEEDED = ("EVALSHA", "EVAL", "TIME", "EXISTS", "HGET", "HMGET", "HGETALL", "HSET", "HSETNX", "HINCRBY", "HDEL")
NOT_NEEDED = (
    "SCRIPT",
    "CONFIG",
    "INFO",
    "KEYS",
    "WAIT",
    "SCAN",
    "HSCAN",
    "CLIENT",
    "PING",
    "SELECT",
    "MULTI",
    "EXPIRE",
)
ONLY_TO_FOLD = ("HINCRBY", "HDEL")  # without them counts arrive, and their slots stay
ONLY_TO_READ = ("HGETALL",)
EXPECTED = {"x": 10, "down": -4, "wide": 7}


async def a_life(counters: Either) -> None:
    """Every command there is. What it is refused is raised, after the whole life has been tried."""
    failures: list[CounterError] = []
    for call in (
        counters.flush(5),
        counters.get_many(EXPECTED, max_age=0),
        counters.get("x", max_age=0),
        counters.close(5),
    ):
        try:
            await call
        except CounterError as error:
            failures.append(error)
    if failures:
        raise failures[0]


async def gone(counters: Either, client: Any) -> None:
    """Nothing goes on, whatever a test has come to."""
    with suppress(CounterError):
        await counters.close(1)
    await closed(client)


def count(counters: Either) -> None:
    counters.incr("x", 10)
    counters.decr("down", 4)
    counters.counter("wide", shards=3).incr(7)


def values(server: RealServer) -> dict[str, int]:
    return {name.decode(): value for name, value in truth(server, EXPECTED).items()}


def allow(server: RealServer, *rights: str) -> None:
    admin: Any = server.client()
    admin.execute_command("ACL", "SETUSER", "poor", "on", "nopass", "~*", *rights)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("missing", NOT_NEEDED)
def test_a_command_that_is_not_needed(server: RealServer, face: str, missing: str) -> None:
    """The user lacks it: all goes on, nothing is said of it."""
    allow(server, "+@all", f"-{missing.lower()}")
    events: list[Event] = []

    async def main() -> None:
        client = client_of(face, server, username="poor", password="any")  # noqa: S106 - of this test's user
        counters = Either(face, client, observer=events.append, flush_interval=0.01)
        try:
            count(counters)
            await a_life(counters)
        finally:
            await gone(counters, client)

    asyncio.run(main())
    assert [event for event in events if event.kind is not EventKind.EVICTION] == []
    assert values(server) == EXPECTED


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("missing", NEEDED)
def test_a_command_that_is_needed(server: RealServer, face: str, missing: str) -> None:
    """The error and the event name it, whatever words the server has, and nothing is lost; once allowed all arrives."""
    admin: Any = server.client()
    events: list[Event] = []
    the_name = f"(?i)\\b{missing}\\b"

    async def main() -> None:
        async with Either.on(face, server, buckets=2) as before:  # keys that are there need more than new ones
            count(before)
        admin.script_flush()
        allow(server, "+@all", f"-{missing.lower()}")
        client = client_of(face, server, username="poor", password="any")  # noqa: S106 - of this test's user
        counters = Either(face, client, observer=events.append, flush_interval=0.01, buckets=2)
        try:
            count(counters)
            if missing in ONLY_TO_FOLD:
                await a_life(counters)
            elif missing in ONLY_TO_READ:
                await counters.flush(5)
                for read in (counters.get("x", max_age=0), counters.get_many(EXPECTED, max_age=0)):
                    with pytest.raises(NotPermitted, match=the_name):
                        await read
            else:
                for _ in range(2):
                    with pytest.raises(NotPermitted, match=the_name):
                        await counters.flush(5)
                    assert counters.stats().pending > 0
            allow(server, "+@all")
            if missing not in ONLY_TO_FOLD:  # else its life is over
                await a_life(counters)
        finally:
            await gone(counters, client)

    asyncio.run(main())
    assert values(server) == {name: 2 * value for name, value in EXPECTED.items()}
    told = [event.message for event in events if event.kind in (EventKind.FLUSH_FAILED, EventKind.REFUSED)]
    assert bool(told) == (missing not in ONLY_TO_READ)
    assert all(re.search(the_name, message) for message in told), told


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("missing", ["SCRIPT", "CONFIG", "KEYS", "WAIT", "SCAN", "EVALSHA", "EVAL"])
def test_a_server_that_has_no_such_command(any_kind: Kind, face: str, missing: str) -> None:
    """As managed services do it: the command is unknown. It is not needed, or the flush says which it is."""
    server = RealServer.start(any_kind, "--rename-command", missing, "")

    async def main() -> None:
        async with Either.on(face, server, flush_interval=0.01) as counters:
            count(counters)
            if missing not in NEEDED:
                await a_life(counters)
                return
            for _ in range(2):
                with pytest.raises(Refused, match=f"(?i){missing}"):
                    await counters.flush(5)
            assert counters.stats().pending > 0
            with pytest.raises(Refused, match=f"(?i){missing}"):
                await counters.close(5)

    try:
        asyncio.run(main())
        if missing not in NEEDED:
            assert values(server) == EXPECTED
    finally:
        server.stop()


KEYED = ("EVALSHA", "EXISTS", "HGET", "HINCRBY", "HMGET", "HSET", "HSETNX", "PEXPIREAT", "SADD", "SISMEMBER", "SREM")
CALLS_WITH_KEYS: list[tuple[Any, ...]] = [
    ("incr_once", "x", "key", 5),
    ("incr_once", "x", "key", 5),
    ("like", "user"),
    ("like", "another"),
    ("unlike", "another"),
    ("seed", "seeded", 7, "token"),
]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("missing", KEYED)
def test_a_command_that_calls_with_keys_need(server: RealServer, face: str, missing: str) -> None:
    """The call that needs it fails and names it, perhaps among others; once allowed it counts, and once."""
    allow(server, "+@all", f"-{missing.lower()}")

    async def main() -> None:
        client = client_of(face, server, username="poor", password="any")  # noqa: S106 - of this test's user
        counters = Either(face, client, buckets=2)
        likes = counters.counters.likes("liked")

        async def calls() -> list[CounterError]:
            failed: list[CounterError] = []
            for call, *arguments in CALLS_WITH_KEYS:
                of: Any = likes if call in ("like", "unlike") else counters.counters
                try:
                    result: Any = getattr(of, call)(*arguments)
                    if inspect.isawaitable(result):
                        await result
                except CounterError as error:
                    failed.append(error)
            return failed

        try:
            failed = await calls()
            assert failed
            for error in failed:
                assert isinstance(error, NotPermitted)
                assert re.search(f"(?i)\\b{missing}\\b", str(error)), error
            allow(server, "+@all")
            assert await calls() == []
        finally:
            await gone(counters, client)

    asyncio.run(main())
    assert truth(server, ["x", "liked", "seeded"]) == {b"x": 5, b"liked": 1, b"seeded": 7}
