"""With `durability`, flush and close return when followers or the disk have it; else they say what they know."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import pytest
import redis
import redis.asyncio

from redis_counters import CounterError, Durability, Event, EventKind, Refused, Unavailable, UsageError
from redis_counters.protocol.wire.durability import shortfall
from tests.faces.either import FACES, Either, client_of, closed, commandstats, reset_stats, truth
from tests.servers import Kind, RealServer
from tests.waiting import until_async

QUICK = Durability(replicas=1, timeout=0.05)


@asynccontextmanager
async def open_counters(face: str, server: RealServer, **options: Any) -> AsyncIterator[Either]:
    """Counters that the body closes itself if it cares; their client is closed."""
    client = client_of(face, server)
    try:
        counters = Either(face, client, **options)
        yield counters
        with suppress(CounterError):
            await counters.close(0.05)
    finally:
        await closed(client)


@contextmanager
def follower_of(server: RealServer) -> Iterator[RealServer]:
    """A server that follows; it is in step when the body begins."""
    server.client().config_set("repl-diskless-sync-delay", 0)
    follower = RealServer.start(server.kind, "--replicaof", server.host, str(server.port))
    try:
        for _ in range(1000):
            if follower.client().info("replication")["master_link_status"] == "up":
                break
            time.sleep(0.02)
        else:
            raise AssertionError("the follower never came up")
        yield follower
    finally:
        follower.stop()


@pytest.mark.parametrize("face", FACES)
def test_flush_returns_when_followers_have_it(private_server: RealServer, face: str) -> None:
    """What a confirmed flush told is what the follower holds, after each flush; the primary may die then."""

    async def main(follower: RealServer) -> None:
        async with Either.on(face, private_server, durability=Durability(replicas=1, timeout=2)) as counters:
            for total in range(1, 20):
                counters.incr("x")
                counters.incr(f"n{total}")
                await counters.flush()
                assert truth(follower, ["x", f"n{total}"]) == {b"x": total, f"n{total}".encode(): 1}
            assert counters.stats().failures == 0

    with follower_of(private_server) as follower:
        asyncio.run(main(follower))
        assert truth(follower, ["x"]) == {b"x": 19}


async def unconfirmed(counters: Either) -> None:
    """A flush says so, in as much time as the machine takes."""
    deadline, told = time.monotonic() + 30, ""
    while "applied on the primary, but confirmed by 0 of 1 followers" not in told:
        assert time.monotonic() < deadline, told
        with pytest.raises(Unavailable) as caught:
            await counters.flush(0.2)
        told = str(caught.value)


@pytest.mark.parametrize("face", FACES)
def test_an_unmet_durability_says_that_it_is_applied(private_server: RealServer, face: str) -> None:
    """No follower: the error says applied, not confirmed; so does an event; repeating counts nothing twice."""
    events: list[Event] = []

    async def main() -> None:
        async with open_counters(
            face, private_server, durability=QUICK, observer=events.append, flush_interval=0.01
        ) as counters:
            counters.incr("x", 7)
            for _ in range(3):
                await unconfirmed(counters)
                assert truth(private_server, ["x"]) == {b"x": 7}
            assert await counters.get("x", max_age=0) == 7
            with follower_of(private_server) as follower:
                await counters.flush(20)
                assert truth(follower, ["x"]) == {b"x": 7}
            counters.incr("x", 1)
            with pytest.raises(Unavailable, match="applied on the primary"):
                await counters.close(0.3)

    asyncio.run(main())
    assert truth(private_server, ["x"]) == {b"x": 8}
    assert EventKind.NOT_DURABLE in {event.kind for event in events}


@pytest.mark.parametrize("face", FACES)
def test_a_confirmation_is_of_a_connection_that_has_written(private_server: RealServer, face: str) -> None:
    """After an unconfirmed flush the connection breaks: the next one, which wrote nothing, must not confirm it."""

    async def main() -> None:
        async with open_counters(face, private_server, durability=QUICK, flush_interval=0.01) as counters:
            counters.incr("x")
            with pytest.raises(Unavailable):
                await counters.flush(0.2)
            with follower_of(private_server) as follower:
                await counters.flush(20)
                follower.pause()
                try:
                    counters.incr("x")
                    for _ in range(3):
                        private_server.client().client_kill_filter(_type="normal")
                        with pytest.raises(Unavailable):
                            await counters.flush(0.3)
                finally:
                    follower.resume()
                await counters.flush(20)
                assert truth(follower, ["x"]) == {b"x": 2}
                await counters.close()

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_the_append_only_file(kind: Kind, face: str) -> None:
    """WAITAOF, where there is one: a primary killed right after a flush comes back with it. Else it is refused."""
    server = RealServer.start(kind, "--appendonly", "yes", "--appendfsync", "everysec")

    async def main() -> None:
        options = {"durability": Durability(aof=True, timeout=3), "flush_interval": 0.01}
        if kind.name.startswith(("redis-6", "redis-7.0")):
            async with open_counters(face, server, **options) as counters:
                counters.incr("x", 5)
                with pytest.raises(Refused, match=r"WAITAOF, which this server does not have \(Redis 7.2 does\)"):
                    await counters.flush(2)
                assert truth(server, ["x"]) == {b"x": 5}
                with pytest.raises(Refused):
                    await counters.close(1)
            return
        async with Either.on(face, server, **options) as counters:
            counters.incr("x", 5)
            await counters.flush()
            server.kill()
            server.restart()
            assert truth(server, ["x"]) == {b"x": 5}
            counters.incr("x")
        assert truth(server, ["x"]) == {b"x": 6}

    try:
        asyncio.run(main())
    finally:
        server.stop()


@pytest.mark.parametrize("face", FACES)
def test_an_append_only_file_that_is_off(kind: Kind, face: str) -> None:
    """The server's own words about it come through, and what was flushed is there."""

    async def main() -> None:
        server = RealServer.start(kind)
        try:
            async with open_counters(face, server, durability=Durability(aof=True, timeout=0.1)) as counters:
                counters.incr("x", 5)
                with pytest.raises(Refused, match=r"WAITAOF|appendonly"):
                    await counters.flush(2)
                assert truth(server, ["x"]) == {b"x": 5}
                with pytest.raises(Refused):
                    await counters.close(1)
        finally:
            server.stop()

    asyncio.run(main())


def test_without_durability_nothing_waits(any_server: RealServer) -> None:
    """No WAIT is sent where none is asked for, and one per round where it is."""

    async def main(durability: Durability | None) -> int:
        reset_stats(any_server)
        async with open_counters("blocking", any_server, durability=durability, flush_interval=0.01) as counters:
            for i in range(2000):
                counters.incr(f"n{i}")
            with suppress(Unavailable):
                await counters.flush(0.5)
            if durability is not None:
                await until_async(lambda: commandstats(any_server).get("wait", 0) > 0, "a round asks for followers")
            with suppress(Unavailable):
                await counters.close(0.1)
            return commandstats(any_server).get("wait", 0)

    assert asyncio.run(main(None)) == 0
    assert 1 <= asyncio.run(main(Durability(replicas=1, timeout=0.1))) < 12


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("replicas", TypeError),
        (1, TypeError),
        (Durability(), UsageError),
        (Durability(replicas=-1), UsageError),
        (Durability(replicas=True), TypeError),
        (Durability(replicas=1.5), TypeError),  # type: ignore[arg-type]
        (Durability(replicas=1, timeout=0), UsageError),
        (Durability(replicas=1, timeout="1"), TypeError),  # type: ignore[arg-type]
        (Durability(aof=1), TypeError),  # type: ignore[arg-type]
    ],
)
@pytest.mark.parametrize("face", FACES)
def test_bad_durability_is_named(any_server: RealServer, face: str, value: object, error: type[Exception]) -> None:
    """What does not make sense is refused when the client is made."""
    with pytest.raises(error, match="durability"):
        Either.on(face, any_server, durability=value)


@pytest.mark.parametrize("options", [{"socket_timeout": 2}, {"socket_timeout": None}, {}], ids=str)
@pytest.mark.parametrize("face", FACES)
def test_a_wait_that_the_client_would_cut_is_refused(
    any_server: RealServer, face: str, options: dict[str, Any]
) -> None:
    """Whatever its time-out is by default: Redis must have answered before."""

    async def main() -> None:
        module: Any = redis if face == "blocking" else redis.asyncio
        pool = module.ConnectionPool(host=any_server.host, port=any_server.port, **options)
        client = module.Redis(connection_pool=pool)
        with pytest.raises(UsageError, match="durability: timeout must be less than the client waits"):
            Either(face, client, durability=Durability(replicas=1, timeout=10))
        await closed(client)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("wanted", "answer", "lacking"),
    [
        (Durability(aof=True), [1, 0], ""),
        (Durability(aof=True), [0, 3], "no append-only file"),
        (Durability(aof=True, replicas=2), [1, 1], "1 of 2 followers"),
        (Durability(replicas=1), 0, "0 of 1 followers"),
        (Durability(replicas=1), 2, ""),
    ],
)
def test_what_an_answer_lacks(wanted: Durability, answer: object, lacking: str) -> None:
    """The disk of the primary comes first, then how many followers."""
    error = shortfall(wanted, answer)
    assert (error is not None) == bool(lacking)
    assert lacking in str(error)
