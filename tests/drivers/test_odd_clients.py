"""Counts are exact with whatever redis-py client a user hands over, in both faces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncioRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

import redis_counters.asyncio
from redis_counters import Counters, Refused, UsageError
from redis_counters.testing import LossyLink
from tests.faces.either import FACES, Either, client_of, closed, count, tally, truth, workload
from tests.servers import Kind, RealServer

ODD: dict[str, dict[str, Any]] = {
    "plain": {},
    "decode_responses": {"decode_responses": True},
    "protocol 2": {"protocol": 2},
    "protocol 2, decoded": {"protocol": 2, "decode_responses": True},
    "protocol 3": {"protocol": 3},
    "protocol 3, decoded": {"protocol": 3, "decode_responses": True},
    "latin-1, decoded": {"encoding": "latin-1", "decode_responses": True},
    "ascii, strict, decoded": {"encoding": "ascii", "encoding_errors": "strict", "decode_responses": True},
    "single_connection_client": {"single_connection_client": True},
    "health_check_interval": {"health_check_interval": 1},
    "no timeout": {"socket_timeout": None},
    "short timeout": {"socket_timeout": 0.25, "retry": None},
    "client_name": {"client_name": "someone"},
}


async def counted_exactly(face: str, client: Any, server: RealServer, *, db: int = 0, seed: int = 1) -> None:
    """Calls in two halves, a flush between them: values are exact at once, after the flush and for a fresh client."""
    calls = workload(seed)
    half, whole = tally(calls[:300]), tally(calls)
    async with Either(face, client) as counters:
        count(counters, calls[:300])
        assert {n: int(v) for n, v in (await counters.get_many(half)).items()} == half
        await counters.flush()
        assert {n: int(v) for n, v in (await counters.get_many(half, max_age=0)).items()} == half
        assert [await counters.get(n, max_age=0) for n in list(half)[:5]] == [half[n] for n in list(half)[:5]]
        count(counters, calls[300:])
    assert truth(server, whole, db=db) == whole


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("options", [pytest.param(options, id=name) for name, options in ODD.items()])
def test_options_of_a_client_make_no_difference(any_server: RealServer, face: str, options: dict[str, Any]) -> None:
    """Decoding, protocol, encoding, timeouts and names of the client change no count."""

    async def main() -> None:
        client = client_of(face, any_server, **options)
        try:
            await counted_exactly(face, client, any_server)
        finally:
            await closed(client)

    asyncio.run(main())


@pytest.mark.every(4, "more of the same")
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    ("encoding", "good"),
    [
        ("utf-8", True),
        ("latin-1", True),
        ("ascii", True),
        ("cp1252", True),
        ("utf-16", False),
        ("utf-32-le", False),
        ("utf-7", False),
        ("cp037", False),
        ("shift_jis", True),
        ("unheard-of", False),
        ("hex", False),
    ],
)
@pytest.mark.parametrize("options", [{}, {"decode_responses": True}, {"client_name": "bob", "protocol": 2}])
def test_encodings(any_server: RealServer, face: str, encoding: str, good: bool, options: dict[str, Any]) -> None:
    """A client with an encoding that redis-py cannot send commands in is refused at once; others count exactly."""

    async def main() -> None:
        client = client_of(face, any_server, encoding=encoding, **options)
        try:
            if good:
                await counted_exactly(face, client, any_server)
            else:
                with pytest.raises(UsageError, match=f"^client: its option encoding.*{encoding!r}"):
                    Either(face, client)
        finally:
            await closed(client)

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_every_kind_of_server(server: RealServer, face: str) -> None:
    """The same calls come to the same counts on every kind of server, in a database other than 0."""

    async def main() -> None:
        client = client_of(face, server, db=3)
        try:
            await counted_exactly(face, client, server, db=3)
        finally:
            await closed(client)

    asyncio.run(main())
    assert server.client(db=0).dbsize() == 0


def pools(face: str, url: str) -> dict[str, Callable[[], Any]]:
    module: Any = redis if face == "blocking" else redis.asyncio
    return {
        "from_url": lambda: module.Redis.from_url(url),
        "ConnectionPool": lambda: module.Redis(connection_pool=module.ConnectionPool.from_url(url)),
        "ConnectionPool of one": lambda: module.Redis.from_url(url, max_connections=1),
        "BlockingConnectionPool of one": lambda: module.Redis(
            connection_pool=module.BlockingConnectionPool.from_url(url, max_connections=1, timeout=10)
        ),
        "pool handed over": lambda: module.Redis.from_pool(module.ConnectionPool.from_url(url)),
    }


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("pool", list(pools("blocking", "")))
def test_pools(any_server: RealServer, face: str, pool: str) -> None:
    """Pools of any sort and size do, one connection suffices."""

    async def main() -> None:
        client = pools(face, any_server.url)[pool]()
        try:
            await counted_exactly(face, client, any_server)
        finally:
            await closed(client)

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("pool", ["ConnectionPool of one", "BlockingConnectionPool of one"])
def test_reading_while_flushing_needs_no_second_connection(any_server: RealServer, face: str, pool: str) -> None:
    """With a pool of one connection, a read that meets a flush waits for the connection instead of failing."""

    async def main(link: LossyLink) -> None:
        client = pools(face, link.url)[pool]()
        try:
            async with Either(face, client, flush_interval=0.01) as counters:
                counters.incr("x")
                await counters.flush()
                link.delay(0.1)
                for i in range(2, 7):
                    counters.incr("x")
                    await asyncio.sleep(0.05)  # the flush is on its way
                    assert await counters.get("x", max_age=0) == i
                link.heal()
        finally:
            await closed(client)

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))
    assert truth(any_server, [b"x"]) == {b"x": 6}


@pytest.mark.parametrize("face", FACES)
def test_a_retrying_client_on_a_link_that_loses_replies(any_server: RealServer, face: str) -> None:
    """Commands are applied, their replies lost, the client repeats them by itself: still each call counts once."""

    async def main(link: LossyLink) -> None:
        module: Any = redis if face == "blocking" else redis.asyncio
        client = module.Redis.from_url(link.url)  # with the retries that redis-py has by default
        calls = workload(2, calls=300)
        try:
            async with Either(face, client, flush_interval=0.01, max_batch=20) as counters:
                count(counters, calls)
                link.drop_reply(every=3, times=30)
                await counters.flush(20)
                count(counters, calls)
                await counters.flush(20)
                assert (await counters.get("n0", max_age=0)) == 2 * tally(calls)[b"n0"]
                link.heal()
        finally:
            await closed(client)

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))
        assert link.dropped > 5
    calls = workload(2, calls=300)
    assert truth(any_server, tally(calls)) == tally(calls + calls)


@pytest.mark.parametrize("face", FACES)
def test_a_client_with_more_retries_than_replies_lost(any_server: RealServer, face: str) -> None:
    """A client told to repeat each command ten times at once does not count ten times."""

    async def main(link: LossyLink) -> None:
        if face == "blocking":
            client: Any = redis.Redis.from_url(link.url, retry=Retry(NoBackoff(), 10))
        else:
            client = redis.asyncio.Redis.from_url(link.url, retry=AsyncioRetry(NoBackoff(), 10))
        try:
            async with Either(face, client, flush_interval=0.01) as counters:
                link.drop_reply(every=1, times=7, commands=["EVALSHA", "EVAL"])
                counters.add("x", 10)
                await counters.flush(20)
                assert await counters.get("x", max_age=0) == 10
        finally:
            await closed(client)

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))
        assert link.dropped == 7
    assert truth(any_server, [b"x"]) == {b"x": 10}


def test_client_side_caching(kind: Kind) -> None:
    """With redis-py's client-side caching (RESP3, Redis from 7.4) values are exact and never its stale copies."""
    if not kind.name.startswith("redis-8"):
        pytest.skip("client-side caching of redis-py asks for Redis 7.4 or later")
    server = RealServer.start(kind)
    try:
        from redis.cache import CacheConfig

        client = redis.Redis(
            host=server.host, port=server.port, protocol=3, cache_config=CacheConfig(), socket_timeout=5
        )
        with client:
            asyncio.run(counted_exactly("blocking", client, server))
            with redis.Redis(host=server.host, port=server.port) as other:
                for i in range(1, 6):
                    asyncio.run(_once(other))
                    asyncio.run(_reads(client, i))
    finally:
        server.stop()


@pytest.mark.timeout(30)
def test_client_side_caching_that_redis_py_refuses(kind: Kind) -> None:
    """On any other server redis-py refuses to connect: every call says so at once, and no call waits for it to pass."""
    if kind.name.startswith("redis-8"):
        pytest.skip("redis-py accepts it here")
    server = RealServer.start(kind)
    try:
        from redis.cache import CacheConfig

        client = redis.Redis(
            host=server.host, port=server.port, protocol=3, cache_config=CacheConfig(), socket_timeout=5
        )
        with client:
            counters = Counters(client, flush_interval=0.01)
            counters.incr("x")
            for call in (counters.flush, lambda: counters.get("y"), lambda: counters.likes("l").like("ann")):
                with pytest.raises(Refused, match="cache_config"):
                    call()
            with pytest.raises(Refused, match="cache_config"):
                counters.close()
    finally:
        server.stop()


async def _once(client: Any) -> None:
    async with Either("blocking", client) as counters:
        counters.incr("fresh")


async def _reads(client: Any, value: int) -> None:
    async with Either("blocking", client) as counters:
        assert await counters.get("fresh", max_age=0) == value


@pytest.mark.parametrize("face", FACES)
def test_an_acl_user_of_the_namespace_alone(any_server: RealServer, face: str) -> None:
    """A user who may touch the namespace's keys only, and run only what is needed, counts exactly."""
    admin: Any = any_server.client()
    admin.execute_command(
        *("ACL", "SETUSER", "counting", "on", ">s3cret", "resetkeys", "~rc:*", "~{rc:*", "-@all", "+@connection"),
        *(
            "+evalsha",
            "+eval",
            "+hget",
            "+hset",
            "+hsetnx",
            "+hmget",
            "+hgetall",
            "+hincrby",
            "+hdel",
            "+exists",
            "+time",
        ),
    )

    async def main() -> None:
        client = client_of(face, any_server, username="counting", password="s3cret")  # noqa: S106 - of this test's user
        try:
            await counted_exactly(face, client, any_server)
        finally:
            await closed(client)

    try:
        asyncio.run(main())
    finally:
        admin.execute_command("ACL", "DELUSER", "counting")


@pytest.mark.parametrize("face", FACES)
def test_a_unix_socket(any_kind: Kind, tmp_path: Path, face: str) -> None:
    """A server reached by its Unix socket, as a client and as a URL."""
    path = f"/tmp/rc-{tmp_path.name[-20:]}-{face}.sock"  # noqa: S108 - short enough for a socket
    server = RealServer.start(any_kind, "--unixsocket", path)
    module: Any = redis if face == "blocking" else redis.asyncio

    async def main() -> None:
        client = module.Redis(unix_socket_path=path)
        try:
            await counted_exactly(face, client, server)
        finally:
            await closed(client)
        async with Either.url(face, f"unix://{path}?db=0") as counters:
            counters.incr("by url", 3)
        assert truth(server, [b"by url"]) == {b"by url": 3}

    try:
        asyncio.run(main())
    finally:
        server.stop()
        Path(path).unlink(missing_ok=True)


@pytest.mark.parametrize("face", [redis_counters.Counters, redis_counters.asyncio.Counters])
def test_a_url_is_no_client(face: Callable[[Any], object]) -> None:
    """Who hands over a URL learns which method takes one, and the URL, which may have a password, is not shown."""
    with pytest.raises(UsageError, match=r"not str; from_url takes a URL$"):
        face("redis://:sesame@localhost")
