"""A server that answers, but not usefully for a while: full, busy, loading, without disk, demoted, cut off.

Counting goes on, nothing is lost and nothing sent too often; whoever asks is told in the server's words; afterwards all
is as if nothing had been.
"""

from __future__ import annotations

import asyncio
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis

from redis_counters import CounterError, Event, EventKind, Unavailable
from tests.faces.either import FACES, Either, client_of, closed, commandstats, reset_stats, truth
from tests.servers import HOST, NOWHERE, Kind, RealServer
from tests.waiting import PATIENCE, until

SLOW_KEYS = 400  # that a server loads, so slowly that it answers LOADING meanwhile


class Trouble(ABC):
    """A server in a state that passes."""

    code: str
    reads = True  # it answers questions meanwhile

    def __init__(self, server: RealServer) -> None:
        self.server = server

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def end(self) -> None: ...

    def config(self, **values: object) -> None:
        client: Any = self.server.client()
        for name, value in values.items():
            client.config_set(name.replace("_", "-"), value)


class Full(Trouble):
    code = "OOM"

    def begin(self) -> None:
        self.config(maxmemory_policy="noeviction", maxmemory=1)

    def end(self) -> None:
        self.config(maxmemory=0)


class WithoutDisk(Trouble):
    """The dump cannot be written (a directory has its name), and Redis then takes no writes."""

    code = "MISCONF"

    @property
    def dump(self) -> Path:
        return Path(self.server._directory, "dump.rdb")

    def begin(self) -> None:
        self.config(save="3600 1")
        self.dump.mkdir()
        self.save("err")

    def end(self) -> None:
        self.dump.rmdir()
        self.save("ok")

    def save(self, comes_to: str) -> None:
        client: Any = self.server.client()
        client.bgsave()
        until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == comes_to, "saving comes to that")


class WithoutFollowers(Trouble):
    code = "NOREPLICAS"

    def begin(self) -> None:
        self.config(min_replicas_to_write=1)

    def end(self) -> None:
        self.config(min_replicas_to_write=0)


class Demoted(Trouble):
    """A primary that has been made a follower: it takes no writes, and open connections stay."""

    code = "READONLY"

    def begin(self) -> None:
        client: Any = self.server.client()
        client.execute_command("REPLICAOF", HOST, NOWHERE)

    def end(self) -> None:
        client: Any = self.server.client()
        client.execute_command("REPLICAOF", "NO", "ONE")


class CutOff(Demoted):
    """A follower that does not reach its primary, and is told not to serve what it has."""

    code = "MASTERDOWN"
    reads = False

    def begin(self) -> None:
        self.config(replica_serve_stale_data="no")
        super().begin()


class Busy(Trouble):
    """Somebody's script runs for ever."""

    code = "BUSY"
    reads = False

    def begin(self) -> None:
        self.config(lua_time_limit=1)

        def run() -> None:
            with suppress(redis.RedisError), self.server.client(socket_timeout=PATIENCE * 2) as client:
                client.eval("while true do end", 0)

        self.thread = threading.Thread(target=run)
        self.thread.start()
        until(lambda: answer(self.server, "PING").startswith("BUSY"), "the server is busy")

    def end(self) -> None:
        client: Any = self.server.client()
        client.script_kill()
        self.thread.join(PATIENCE)


class Loading(Trouble):
    """The server reads its data, as at a start with a large file."""

    code = "LOADING"
    reads = False

    def begin(self) -> None:
        client: Any = self.server.client()
        self.config(loading_process_events_interval_bytes=1024)
        for i in range(SLOW_KEYS):
            client.set(f"other:{i}", os.urandom(1024))
        self.config(key_load_delay=50_000)

        def run() -> None:
            with suppress(redis.RedisError), self.server.client(socket_timeout=PATIENCE * 2) as client:
                client.execute_command("DEBUG", "RELOAD")

        self.thread = threading.Thread(target=run)
        self.thread.start()
        until(lambda: answer(self.server, "PING").startswith("LOADING"), "the server is loading")

    def end(self) -> None:
        client: Any = self.server.client()
        until(lambda: "OK" in answer(self.server, "CONFIG", "SET", "key-load-delay", "0"), "loading is quick again")
        self.thread.join(PATIENCE)
        until(client.ping, "all is loaded")


TROUBLES: list[type[Trouble]] = [Full, WithoutDisk, WithoutFollowers, Demoted, CutOff, Busy, Loading]


def answer(server: RealServer, *words: str) -> str:
    """Return what a server says, errors with their codes; no client that would repeat anything is between."""
    import socket

    with socket.create_connection((server.host, server.port), timeout=PATIENCE) as connection:
        connection.sendall(" ".join(words).encode() + b"\r\n")
        return connection.recv(1000).decode().lstrip("+-")


@pytest.fixture
def server_with_debug(any_kind: Kind) -> Iterator[RealServer]:
    server = RealServer.start(any_kind, "--enable-debug-command", "yes")
    yield server
    server.stop()


@pytest.mark.every(4, "a second each")
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("trouble", TROUBLES)
def test_it_passes(server_with_debug: RealServer, face: str, trouble: type[Trouble]) -> None:
    """A flush is refused with the server's code, and kept; counting goes on; when it is over, so does everything."""
    server = server_with_debug
    events: list[Event] = []

    async def main() -> None:
        client = client_of(face, server)
        counters = Either(face, client, observer=events.append, flush_interval=0.01)
        try:
            counters.incr("x", 10)
            counters.decr("y", 3)
            await counters.flush()
            assert await counters.get("x") == 10
            state = trouble(server)
            state.begin()
            try:
                for _ in range(100):
                    counters.incr("x")
                    counters.incr("new")
                with pytest.raises(Unavailable, match=trouble.code) as caught:
                    await counters.flush(0.5)
                assert caught.value.pending == {"x": 100, "new": 100}
                assert trouble.code in str(counters.stats().last_error)
                assert await counters.get("x", max_age=float("inf")) == 110
                if trouble.reads:
                    assert await counters.get_many(["x", "y", "new"], max_age=0) == {"x": 110, "y": -3, "new": 100}
                else:
                    with pytest.raises(CounterError):
                        await counters.get("y", max_age=0)
                counters.incr("x")
            finally:
                state.end()
            await counters.flush(PATIENCE)
            assert await counters.get_many(["x", "y", "new"], max_age=0) == {"x": 111, "y": -3, "new": 100}
            assert counters.stats().pending == 0
        finally:
            with suppress(CounterError):
                await counters.close(PATIENCE)
            await closed(client)

    asyncio.run(main())
    assert truth(server, ["x", "y", "new"]) == {b"x": 111, b"y": -3, b"new": 100}
    flushes = [e for e in events if e.kind in (EventKind.FLUSH_FAILED, EventKind.FLUSH_RECOVERED)]
    assert [event.kind for event in flushes] == [EventKind.FLUSH_FAILED, EventKind.FLUSH_RECOVERED]
    assert trouble.code in flushes[0].message


@pytest.mark.parametrize("face", FACES)
def test_a_full_server_is_not_pressed(server_with_debug: RealServer, face: str) -> None:
    """While a flush fails again and again, attempts are far fewer than increments, and each costs a command or two."""
    server = server_with_debug

    async def main() -> None:
        async with Either.on(face, server, flush_interval=0.05, buckets=4) as counters:
            counters.incr("x")
            await counters.flush()
            trouble = Full(server)
            trouble.begin()
            reset_stats(server)
            failures = counters.stats().failures
            counted = 0
            while counters.stats().failures < failures + 4:
                for i in range(100):
                    counters.incr(f"n{i}")
                    counted += 1
                await asyncio.sleep(0.01)
            sent = commandstats(server).get("evalsha", 0)
            failed = counters.stats().failures - failures
            assert sent <= (failed + 1) * 2 * 4  # an opening and a flush a bucket, at the most
            assert counted > 10 * sent
            trouble.end()
            await counters.flush(PATIENCE)
            assert await counters.get("n0", max_age=0) == counted / 100

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_a_full_server_gets_room_by_folding(server_with_debug: RealServer, face: str) -> None:
    """While nothing can be written, clients that end still fold what is across: their slots make room."""
    server = server_with_debug
    client: Any = server.client()

    async def main() -> None:
        everyone = [Either.on(face, server, flush_interval=60, buckets=1) for _ in range(5)]
        for counters in everyone:
            counters.incr("x", 7)
            await counters.flush()
        (key,) = client.keys("*:c:0:x")
        assert client.hlen(key) == 6
        trouble = Full(server)
        trouble.begin()
        for left, counters in enumerate(reversed(everyone)):
            await counters.close(PATIENCE)
            await closed(counters._client)
            assert client.hlen(key) == 6 - left
        assert client.hlen(key) == 2  # base and dot
        trouble.end()

    asyncio.run(main())
    assert truth(server, ["x"]) == {b"x": 35}


class Interrupt(BaseException):
    """As KeyboardInterrupt and SystemExit, which pytest keeps for itself."""


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit, Interrupt])
def test_what_ends_a_program_is_not_swallowed(any_server: RealServer, face: str, error: type[BaseException]) -> None:
    """The pace of attempts repeats errors of Redis, and passes on at once whatever is to end a thread or a task."""
    calls: list[int] = []

    def attempt() -> None:
        calls.append(1)
        if len(calls) < 3:
            raise Unavailable("as often as it takes")
        raise error

    async def attempt_asyncio() -> None:
        attempt()

    async def main() -> None:
        async with Either.on(face, any_server, flush_interval=0.01) as counters:
            retrying = counters.counters._runner.flusher.retrying
            with pytest.raises(error):
                await retrying(attempt_asyncio) if face == "asyncio" else retrying(attempt)

    asyncio.run(main())
    assert len(calls) == 3
