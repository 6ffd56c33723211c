"""Errors and events quote a name in one way, whether it was given as a str or as bytes, and so does the command."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis

from redis_counters import CounterError, Event
from redis_counters.errors import quoted
from redis_counters.protocol.wire.keys import KeySpace
from tests.cli.commands import run
from tests.faces.either import FACES, Either
from tests.servers import NOWHERE, RealServer

SOURCES = Path(__file__).parents[2] / "redis_counters"
NAME = "na\x1bme"
SHOWN = r"'na\x1bme'"
BIG = 2**63

Call = Callable[[Either, Any], Any]


async def error_of(counters: Either, call: Call, name: str | bytes) -> str:
    try:
        result = call(counters, name)
        if isinstance(result, Awaitable):
            await result
    except CounterError as error:
        return str(error)
    pytest.fail("no error")


CALLS: dict[str, Call] = {
    "too large": lambda c, name: c.add(name, BIG),
    "no room": lambda c, name: (c.add(name, BIG - 1), c.add(name, BIG - 1)),
    "wrong type": lambda c, name: c.get(name, max_age=0),
    "inspect": lambda c, name: c.inspect(name),
    "reset": lambda c, name: c.reset(name),
    "flush": lambda c, name: (c.incr(name), c.flush())[1],
    "once": lambda c, name: c.counters.incr_once(name, "key"),
    "like": lambda c, name: c.counters.likes(name).like(1),
}


@pytest.mark.parametrize("what", CALLS)
@pytest.mark.parametrize("face", FACES)
def test_errors(any_server: RealServer, face: str, what: str) -> None:
    """An error about a counter has the same text for a name and for its bytes."""

    async def main() -> list[str]:
        with redis.Redis(host=any_server.host, port=any_server.port) as client:
            client.set(KeySpace(b"rc", 16).shard_key(NAME.encode(), 0)[1], "x")
        told = []
        for name in (NAME, NAME.encode()):
            with suppress(CounterError):  # what it counted is refused
                async with Either.on(face, any_server) as counters:
                    told.append(await error_of(counters, CALLS[what], name))
        return told

    of_str, of_bytes = asyncio.run(main())
    assert SHOWN in of_str
    assert of_str == of_bytes
    assert "b'" not in of_str


@pytest.mark.parametrize("face", FACES)
def test_errors_without_redis(face: str) -> None:
    """The same of a client that is full, or closed, and of what it reports as lost."""
    events: list[Event] = []

    async def main() -> list[str]:
        options = {"max_pending": 1, "observer": events.append, "flush_interval": 0.01}
        counters = Either.url(face, f"redis://localhost:{NOWHERE}", **options)
        told: list[str] = []
        for number in range(1_000):
            try:
                counters.incr(NAME.encode() + b"%d" % number)
            except CounterError as error:
                told.append(re.sub(r"\d+'", "'", str(error)))
                break
            await asyncio.sleep(0.01)
        with pytest.raises(CounterError):
            await counters.close(0)
        told.append(await error_of(counters, lambda c, name: c.incr(name), NAME.encode()))
        return told

    full, closed = asyncio.run(main())
    assert f"counter {SHOWN} was not counted" in full
    assert f"counter {SHOWN} was not counted" in closed
    assert [event for event in events if "b'" in event.message] == []


def test_the_command(any_server: RealServer) -> None:
    """The command's line has the same words as the error in Python."""
    with redis.Redis(host=any_server.host, port=any_server.port) as client:
        client.set(KeySpace(b"rc", 16).shard_key(NAME.encode(), 0)[1], "x")
    assert f"counter {SHOWN}: ".encode() in run(any_server, "get", NAME).stderr


def test_quoted() -> None:
    """A name is quoted as the text that it is; bytes that are no text, as bytes."""
    assert [quoted(name) for name in ("a", b"a", "ü\n", "ü\n".encode(), b"\xff", "it's")] == [
        "'a'",
        "'a'",
        r"'ü\n'",
        r"'ü\n'",
        r"b'\xff'",
        '"it\'s"',
    ]


def test_no_other_way() -> None:
    """No text of the library quotes a counter, a key or a field otherwise."""
    other = re.compile(r"\b(?:counter|key|field) \{(?!quoted\()[^{}]*!r\}")
    found = [f"{path.name}: {hit}" for path in SOURCES.rglob("*.py") for hit in other.findall(path.read_text())]
    assert found == []
