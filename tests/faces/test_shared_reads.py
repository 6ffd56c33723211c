"""Readers that meet: with others who read the same, and with processes that settle or count something meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncioRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from redis_counters import Unavailable
from redis_counters.testing import LossyLink
from tests.faces.either import FACES, Either, client_of, closed, truth
from tests.servers import RealServer
from tests.waiting import until_async

READERS = 8


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("buckets", [1, 4, 40])
def test_others_settle_the_buckets_after_the_first_read(any_server: RealServer, face: str, buckets: int) -> None:
    """Reads of an empty namespace leave no trace of the number of buckets that this process would have chosen."""
    names = ["x", "a", "b", "c", *(f"n{i}" for i in range(20))]

    async def main() -> None:
        async with Either.on(face, any_server, max_age=60) as counters:
            for name in names:
                assert await counters.get(name) == 0
            async with Either.on(face, any_server, buckets=buckets) as other:
                other.incr("other")
                await other.flush()
            for name in names:
                counters.incr(name, 5)
            await counters.flush()
            for name in names:
                assert await counters.get(name) == 5
            assert set((await counters.get_many(names)).values()) == {5}
            assert set((await counters.get_many(names, max_age=0)).values()) == {5}

    asyncio.run(main())
    assert truth(any_server, [*names, "other"]) == {b"other": 1, **{name.encode(): 5 for name in names}}


@pytest.mark.parametrize("face", FACES)
def test_no_cache_asked_for_is_no_cache_given(any_server: RealServer, face: str) -> None:
    """With the option max_age=0 a plain read is fresh also while another one is on its way."""

    async def main(link: LossyLink) -> None:
        client = client_of(face, any_server, port=int(link.url.rpartition(":")[2].partition("/")[0]))
        async with Either(face, client, max_age=0) as counters:
            assert await counters.get("x") == 0
            async with Either.on(face, any_server) as other:
                other.incr("x", 7)
            link.delay(0.3)
            leader = asyncio.create_task(counters.background("get", "x"))
            await until_async(lambda: bool(counters.counters._core.reads.cache.fetching), "a read is on its way")
            assert await counters.get("x") == 7
            assert await leader == 7
            link.heal()
        await closed(client)

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))


class Asked:
    """How often a client's connections sent a read."""

    def __init__(self) -> None:
        self.times = 0

    def client(self, face: str, place: dict[str, Any]) -> Any:
        """Return a client that does not repeat by itself."""
        asked = self

        def see(command: Any) -> None:
            text = command if isinstance(command, bytes) else b"".join(command)
            asked.times += b"HMGET" in text or b"HGETALL" in text

        if face == "blocking":

            class Connection(redis.Connection):
                def send_packed_command(self, command: Any, check_health: bool = True) -> None:
                    see(command)
                    super().send_packed_command(command, check_health)  # type: ignore[no-untyped-call] # redis-py's

            pool = redis.ConnectionPool(connection_class=Connection, retry=Retry(NoBackoff(), 0), **place)
            return redis.Redis.from_pool(pool)

        class AsyncioConnection(redis.asyncio.Connection):
            async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
                see(command)
                await super().send_packed_command(command, check_health)

        options = {"retry": AsyncioRetry(NoBackoff(), 0), **place}
        return redis.asyncio.Redis.from_pool(
            redis.asyncio.ConnectionPool(connection_class=AsyncioConnection, **options)
        )


@pytest.mark.parametrize("face", FACES)
def test_readers_of_a_frozen_server_fail_together(private_server: RealServer, face: str) -> None:
    """Eight readers of a counter wait for one answer that does not come: all fail with that, none asks on its own."""
    place: dict[str, Any] = {"host": private_server.host, "port": private_server.port, "socket_timeout": 0.5}
    asked = Asked()

    async def main() -> None:
        client = asked.client(face, place)
        async with Either(face, client) as counters:
            await counters.get("y")  # a connection is there
            asked.times = 0
            private_server.pause()
            try:
                readers = [asyncio.create_task(counters.background("get", "x")) for _ in range(READERS)]
                failures = await asyncio.gather(*readers, return_exceptions=True)
            finally:
                private_server.resume()
            assert all(isinstance(failure, Unavailable) for failure in failures)
            assert 1 <= asked.times <= 2  # 2: of one that came too late
            assert len({str(failure) for failure in failures}) <= 2
            counters.incr("x", 5)
            assert await counters.get("x") == 5
        await closed(client)

    asyncio.run(main())
    assert truth(private_server, ["x"]) == {b"x": 5}
