"""A server that sends a byte now and then is no server: every call ends by its deadline, and nothing is read late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
import redis.asyncio
from redis._parsers import _AsyncRESP2Parser, _RESP2Parser

from redis_counters import Unavailable
from redis_counters.drivers import deadline
from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.redis_py import cluster, cluster_asyncio, lanes
from redis_counters.testing import LossyLink
from tests.faces.either import FACES, Either, _awaited, closed, truth
from tests.servers import RealServer

LIMIT = 0.3  # seconds, in place of ten
LATE = 12.0  # seconds: what takes longer has no deadline; a reply of 30 bytes alone would take 15
DRIP = 0.5

Call = Callable[[Any], Any]

CALLS: dict[str, Call] = {
    "get": lambda counters: counters.get("x", max_age=0),
    "get_many": lambda counters: counters.get_many(["x", "y"], max_age=0),
    "value": lambda counters: counters.counter("x").value(max_age=0),
    "inspect": lambda counters: counters.inspect("x"),
    "reset": lambda counters: counters.reset("x"),
    "delete": lambda counters: counters.delete("x"),
    "incr_once": lambda counters: counters.incr_once("o", "key"),
    "like": lambda counters: counters.likes("l").like("ann"),
    "unlike": lambda counters: counters.likes("l").unlike("ann"),
    "has": lambda counters: counters.likes("l").has("ann"),
    "has_many": lambda counters: counters.likes("l").has_many(["ann", "bob"]),
    "likes.value": lambda counters: counters.likes("l").value(max_age=0),
    "adopt_likes": lambda counters: counters.likes("l").adopt_likes("set"),
    "seed": lambda counters: counters.seed("s", 5, "token"),
    "seed_many": lambda counters: counters.seed_many({"s": 5, "t": 6}, "token"),
    "adopt": lambda counters: counters.adopt("plain"),
    "flush": lambda counters: (counters.incr("x"), counters.flush(LIMIT))[1],
}
AGAIN = CALLS | {"flush": lambda counters: (counters.incr("x"), counters.flush())[1]}  # in its own time, not in LIMIT


@contextmanager
def soon() -> Iterator[None]:
    """Calls, and answers in the background, have a shorter time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deadline, "CALL_TIMEOUT_S", LIMIT)
        for module in (lanes, cluster, cluster_asyncio):
            patch.setattr(module, "REPLY_TIMEOUT_S", LIMIT)
        yield


async def ends(call: Callable[[], Any]) -> Unavailable:
    """Return the error that the call ended with; it did so in time."""
    began = monotonic()
    with soon(), pytest.raises(Unavailable) as caught:
        await _awaited(call())
    assert monotonic() - began < LATE
    return caught.value


def without_time_outs(face: str, link: LossyLink) -> Any:
    """Return a client of the caller's that waits for ever, and tries again and again."""
    module = redis if face == "blocking" else redis.asyncio
    return module.Redis.from_url(link.url, socket_timeout=None, socket_connect_timeout=None)


def with_python_parser(face: str, link: LossyLink) -> Any:
    module, parser = (redis, _RESP2Parser) if face == "blocking" else (redis.asyncio, _AsyncRESP2Parser)
    pool = module.ConnectionPool.from_url(link.url, parser_class=parser, protocol=2, socket_timeout=5)
    return module.Redis(connection_pool=pool)


def in_single(face: str, link: LossyLink) -> Any:
    module = redis if face == "blocking" else redis.asyncio
    return module.Redis.from_url(link.url, socket_timeout=5, single_connection_client=True)


def in_blocking_pool(face: str, link: LossyLink) -> Any:
    module = redis if face == "blocking" else redis.asyncio
    pool = module.BlockingConnectionPool.from_url(link.url, max_connections=3, timeout=30, socket_timeout=5)
    return module.Redis(connection_pool=pool)


CLIENTS: dict[str, Callable[[str, LossyLink], Any]] = {
    "no time-outs": without_time_outs,
    "python parser": with_python_parser,
    "single connection": in_single,
    "blocking pool": in_blocking_pool,
}


@pytest.mark.every(5, "half a second each")
@pytest.mark.timeout(90)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("face", FACES)
def test_a_dripping_server(any_server: RealServer, face: str, call: str) -> None:
    """Every call ends, over connections that there were and over new ones; after it all is as if nothing had been."""

    async def main(link: LossyLink) -> None:
        for warm in (True, False):
            async with Either.url(face, link.url, flush_interval=0.01) as counters:
                if warm:
                    counters.incr("x")
                    await counters.flush()
                    await counters.get("x", max_age=0)
                    await _awaited(CALLS["like"](counters.counters))
                link.drip(DRIP)
                error = await ends(lambda: CALLS[call](counters.counters))
                assert link.dripped
                assert "no answer within" in str(error) or "applied within" in str(error)
                link.heal()
                await _awaited(AGAIN[call](counters.counters))
                await counters.flush()
                counted = int(warm) + 2 * (call == "flush")
                assert await counters.get("x", max_age=0) == (0 if call in ("reset", "delete") else counted)
                await counters.delete("x")

    any_server.client().sadd("set", "ann")
    any_server.client().set("plain", 7)
    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))
    likers = {"like": 1, "adopt_likes": 1}
    found = truth(any_server, ["o", "l", "s", "plain"])
    assert found[b"o"] == (call == "incr_once")
    assert found[b"s"] == 5 * (call in ("seed", "seed_many"))
    assert found[b"plain"] == 7 * (call == "adopt")
    assert found[b"l"] == (0 if call == "unlike" else likers.get(call, 1))


@pytest.mark.every(5, "a second each")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("face", FACES)
def test_whichever_client_it_is(any_server: RealServer, face: str, warm: bool, kind: str) -> None:
    """Also one that sets no time-outs, has redis-py's own parser, or hands out connections in its own way."""

    async def main(link: LossyLink) -> None:
        client = CLIENTS[kind](face, link)
        async with Either(face, client, flush_interval=0.01) as counters:
            counters.incr("x")
            if warm:
                await counters.flush()
            link.drip(DRIP)
            await ends(lambda: counters.counters.get("x", max_age=0))
            await ends(lambda: counters.counters.inspect("x"))
            await ends(lambda: counters.counters.likes("l").like("ann"))
            counters.incr("x")
            await ends(lambda: counters.counters.flush(LIMIT))
            link.heal()
            await counters.flush()
            assert await counters.get("x", max_age=0) == 2
            assert (await counters.inspect("x")).value == 2
        await closed(client)

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("face", FACES)
def test_close_ends(any_server: RealServer, face: str) -> None:
    """So does close, with what was not delivered; and it leaves nobody waiting."""

    async def main(link: LossyLink) -> None:
        counters = Either.url(face, link.url, flush_interval=0.01)
        counters.incr("x")
        await counters.flush()
        link.drip(DRIP)
        counters.incr("x")
        error = await ends(lambda: counters.counters.close(LIMIT))
        assert error.pending == {"x": 1}

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("face", FACES)
@pytest.mark.slow("megabytes")
def test_a_server_that_does_not_read(private_server: RealServer, face: str) -> None:
    """What does not fit into its buffers is not waited for longer than an answer; it is told, and arrives later."""
    names = [f"{n}:{'long' * 5_000}" for n in range(1_500)]

    async def main() -> None:
        module = redis if face == "blocking" else redis.asyncio
        client = module.Redis.from_url(private_server.url, socket_timeout=None)
        async with Either(face, client, flush_interval=0.01, max_batch=2_000, buckets=1) as counters:
            counters.incr("x")
            await counters.flush()
            used = client.connection_pool._available_connections[-1]
            writer = getattr(used, "_writer", None)
            private_server.pause()
            try:
                for name in names:
                    counters.incr(name)
                await ends(lambda: counters.counters.flush(LIMIT))
                with soon():
                    for _ in range(100):
                        if counters.stats().failures:
                            break
                        await asyncio.sleep(0.1)
                assert "no answer within" in str(counters.stats().last_error)
                assert writer is None or writer.get_extra_info("socket").fileno() == -1  # nobody's, and not left open
            finally:
                private_server.resume()
            await counters.flush()
            assert sum((await counters.get_many(names, max_age=0)).values()) == len(names)
        await closed(client)

    asyncio.run(main())
