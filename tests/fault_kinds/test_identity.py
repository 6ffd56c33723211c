"""No writer is taken for another: not for its earlier self, a fork, a twin with the same name, clock and seed."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from redis_counters import Counters
from redis_counters.drivers import identity
from redis_counters.drivers.redis_py import lanes, wire
from redis_counters.protocol.wire.commands import Command
from tests.faces.either import FACES, Either, truth
from tests.servers import RealServer

ROOT = Path(__file__).resolve().parents[2]

FIRST_LIFE = """
import sys, time
from redis_counters import Counters
counters = Counters.from_url(sys.argv[1], actor="the same name")
for n in (10, 30):
    counters.incr("x", n)
    counters.flush()
    print("flushed", flush=True)
    sys.stdin.readline()
"""


def first_life(server: RealServer) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
    """A process counts 10, then 30 more, and is killed; return what the server held after each."""
    process = subprocess.Popen(
        [sys.executable, "-c", FIRST_LIFE, server.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        assert process.stdout.readline() == b"flushed\n"
        part = state(server)
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"flushed\n"
        process.kill()
        assert process.wait(10) == -signal.SIGKILL
    return part, state(server)


def state(server: RealServer) -> dict[bytes, bytes]:
    client: Any = server.client()
    return {key: client.dump(key) for key in client.keys("*")}


def put_back(server: RealServer, held: dict[bytes, bytes]) -> None:
    client: Any = server.client()
    client.flushall()
    for key, value in held.items():
        client.restore(key, 0, value)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(("before", "left"), [("all", 40), ("a part", 10), ("nothing", 0)])
def test_a_second_life_adds_to_what_is_left_of_the_first(
    any_server: RealServer, face: str, before: str, left: int
) -> None:
    """Counted 40, killed, the server rolled back, restarted, 5 more: they are never swallowed by what was there."""
    part, everything = first_life(any_server)
    put_back(any_server, {"all": everything, "a part": part, "nothing": {}}[before])

    async def main() -> None:
        async with Either.on(face, any_server, actor="the same name", reassert_window=0.0) as counters:
            for n in range(1, 6):
                counters.incr("x")
                await counters.flush()
                assert await counters.get("x", max_age=0) == left + n

    asyncio.run(main())
    assert truth(any_server, ["x"]) == {b"x": left + 5}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("lost", [False, True], ids=["records there", "records lost"])
def test_late_copies_of_the_first_life_touch_no_second_one(
    any_server: RealServer, monkeypatch: pytest.MonkeyPatch, face: str, lost: bool
) -> None:
    """All that an earlier client ever sent arrives again and again, in any order, while its successor counts."""
    heard: list[list[Any]] = []
    packed = wire.packed

    def overheard(connection: Any, command: Command, *, text: bool) -> Any:
        if command.script is not None:
            heard.append(wire.words(command, text=True))
        return packed(connection, command, text=text)

    async def main() -> None:
        client: Any = any_server.client()
        options: dict[str, Any] = {"actor": "the same name", "buckets": 1}
        with monkeypatch.context() as patch:
            patch.setattr(lanes, "packed", overheard)
            async with Either.on(face, any_server, **options) as first:
                for _ in range(7):
                    first.incr("x")
                    await first.flush()
        assert len(heard) >= 10  # opening, seven flushes, closing, folding
        if lost:
            client.flushall()
        order = random.Random(1)
        async with Either.on(face, any_server, **options) as second:
            for n in range(1, 6):
                second.incr("x")
                await second.flush()
                order.shuffle(heard)
                for words in heard:
                    client.execute_command(*words)
                assert await second.get("x", max_age=0) == n + (0 if lost else 7)

    asyncio.run(main())
    assert truth(any_server, ["x"]) == {b"x": 5 if lost else 12}


def test_nothing_that_two_processes_share_is_an_identity(
    any_server: RealServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same host name, process id, clock and seed, as in containers made from one image: still two writers."""
    monkeypatch.setattr(os, "getpid", lambda: 1)
    monkeypatch.setattr(socket, "gethostname", lambda: "container")
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.0)
    monkeypatch.setattr(time, "monotonic_ns", lambda: 1)
    tokens = set()
    for _ in range(50):
        random.seed(0)
        tokens.add(identity.mint())
    assert len(tokens) == 50
    clients = []
    for _ in range(20):
        random.seed(0)
        clients.append(Counters(any_server.client()))
    for counters in clients:
        counters.incr("x")
        counters.flush()
    assert truth(any_server, ["x"]) == {b"x": 20}
    for counters in clients:
        counters.close()
    assert truth(any_server, ["x"]) == {b"x": 20}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.slow("hundreds of lives")
def test_what_is_kept_follows_from_who_counts_now(any_server: RealServer, face: str) -> None:
    """Two hundred short lives add 1 each: the value is right all the time, and the shard holds one number more or less.

    What a life that was killed leaves behind is the janitor's: tests/janitor.
    """
    client: Any = any_server.client()
    fields = []

    async def main() -> None:
        for number in range(1, 201):
            async with Either.on(face, any_server) as counters:
                counters.incr("x")
                await counters.flush()
                assert await counters.get("x", max_age=0) == number
                (key,) = client.keys("*:c:0:x")
                fields.append(client.hlen(key))
            fields.append(client.hlen(key))

    asyncio.run(main())
    assert max(fields) <= 3  # base, dot, the one slot
    assert fields[-1] == 2
    assert truth(any_server, ["x"]) == {b"x": 200}
