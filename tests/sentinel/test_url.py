"""redis+sentinel://: what stands where, what is wrong with a URL, and that the primary is found by it."""

from __future__ import annotations

import asyncio
import re
import urllib.parse
from typing import Any

import pytest

from redis_counters import Counters, NotPermitted, Refused, Unavailable, UsageError
from redis_counters.asyncio import Counters as AsyncioCounters
from redis_counters.drivers.sentinel_url import PORT, SCHEMES, SentinelUrl, taken_apart
from redis_counters.drivers.urls import open_url
from tests.faces.either import FACES, Either, truth
from tests.servers import NOWHERE
from tests.topologies import WATCHED, Sentinels

WRONG = {
    "redis+sentinel://localhost:26379": "must name behind a / the service",
    "redis+sentinel://localhost:26379/": "must name behind a / the service",
    "redis+sentinel:///counted": "no address host:port for Sentinel 1 of 1",
    "redis+sentinel://a:1,,b:2/counted": "no address host:port for Sentinel 2 of 3",
    "redis+sentinel://a:1,:26379/counted": "no address host:port for Sentinel 2 of 2",
    "redis+sentinel://a:1,b:port/counted": "no address host:port for Sentinel 2 of 2",
    "redis+sentinel://a:1,b:65536/counted": "no address host:port for Sentinel 2 of 2",
    "redis+sentinel://a:0/counted": "no address host:port for Sentinel 1 of 1",
    "redis+sentinel://[::1/counted": "malformed",
    "redis+sentinel://a/counted/x": "something else than the number of a database",
    "redis+sentinel://a/counted/1/2": "something else than the number of a database",
    "redis+sentinel://a/counted?db=-1": "something else than the number of a database",
    "redis+sentinel://a/counted/1?db=1": "twice",
    "redis+sentinel://a/counted?sentinel_password=sup3r&sentinel_password=secret": "twice",
    "redis+sentinel://a/counted?sentinel_username=sup3r": "without sentinel_password",
    "redis+sentinel://a/counted?sentinel_passwort=sup3r": "sentinel_passwort",
    "redis+sentinel://a/counted?foo=bar": "foo",
    "redis+sentinel://user:sup3r@a/counted?sentinel_password=secret&protocol=9": "protocol",
    "redis+sentinel://user:sup3r/secret@localhost:26379/counted": "percent-encoded",
    "redis+sentinel://user:123/secret@localhost:26379/counted": "percent-encoded",
    "redis+sentinel://user:123/secret@localhost:26379": "percent-encoded",
    "redis+sentinel://user:123#secret@localhost:26379/counted": "percent-encoded",
    "redis+sentinel://user:123?secret@localhost:26379/counted": "service",
    "redis+sentinel://localhost:26379/counted?socket_timeout=sup3r": "socket_timeout",
}


@pytest.mark.parametrize("url", WRONG)
@pytest.mark.parametrize("face", [Counters, AsyncioCounters])
def test_a_wrong_url_is_refused_at_once(face: type[Counters | AsyncioCounters], url: str) -> None:
    """In words that say what is wrong, and nothing of a password, not even where it is what makes the URL wrong."""
    with pytest.raises(UsageError) as refused:
        face.from_url(url)
    assert WRONG[url] in str(refused.value)
    assert "sup3r" not in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("a/counted", SentinelUrl([("a", PORT)], "counted", {}, "redis://localhost/0")),
        ("a:1,b:2,c/x/3", SentinelUrl([("a", 1), ("b", 2), ("c", PORT)], "x", {}, "redis://localhost/3")),
        ("a/x/?db=4", SentinelUrl([("a", PORT)], "x", {}, "redis://localhost/4")),
        ("[::1]:5,[fe80::2]/x", SentinelUrl([("::1", 5), ("fe80::2", PORT)], "x", {}, "redis://localhost/0")),
        ("a/my%20%2F%40", SentinelUrl([("a", PORT)], "my /@", {}, "redis://localhost/0")),
        (
            "me:p%40ss,w0rd@a:1,b:2/x?sentinel_username=s&sentinel_password=p%26q&protocol=3",
            SentinelUrl(
                [("a", 1), ("b", 2)],
                "x",
                {"username": "s", "password": "p&q"},
                "redis://me:p%40ss,w0rd@localhost/0?protocol=3",
            ),
        ),
    ],
)
def test_what_stands_where(rest: str, expected: SentinelUrl) -> None:
    """User and password are those of Redis."""
    assert taken_apart("redis+sentinel", rest) == expected
    assert taken_apart("valkey+sentinel", rest) == expected
    assert taken_apart("rediss+sentinel", rest) == expected._replace(redis=expected.redis.replace("redis", "rediss", 1))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("asyncio", [False, True])
def test_what_redis_py_is_told(scheme: str, asyncio: bool) -> None:
    """Sentinels and Redis have passwords of their own; TLS and time-outs are for both, the database is for Redis."""
    url = f"{scheme.upper()}://me:one@a:1,b:2/x/3?sentinel_password=two&socket_timeout=7"
    client = open_url(url, asyncio=asyncio).client
    pool = client.connection_pool
    to_redis = pool.connection_class(**pool.connection_kwargs)
    assert pool.service_name == "x"
    assert (pool.connection_kwargs["username"], pool.connection_kwargs["password"]) == ("me", "one")
    assert (to_redis.db, to_redis.socket_timeout, to_redis.socket_connect_timeout) == (3, 7, 5)
    tls = scheme.startswith(("rediss", "valkeys"))
    assert ("SSL" in type(to_redis).__name__) == tls
    for sentinel, address in zip(pool.sentinel_manager.sentinels, [("a", 1), ("b", 2)], strict=True):
        to_sentinel = sentinel.connection_pool.make_connection()
        assert (to_sentinel.host, to_sentinel.port) == address
        assert (to_sentinel.db, to_sentinel.socket_timeout) == (0, 7)
        options = sentinel.connection_pool.connection_kwargs
        assert (options.get("username"), options["password"]) == (None, "two")
        assert ("SSL" in type(to_sentinel).__name__) == tls


def url_of(sentinels: Sentinels, *, login: str = "", tail: str = "") -> str:
    return sentinels.url.replace("://", f"://{login}") + tail


@pytest.mark.parametrize("face", FACES)
def test_users_of_redis_and_of_sentinels(sentinels: Sentinels, face: str) -> None:
    """Each has its own; whoever leaves out, or mistakes, that of the Sentinels is told so, and which it was not."""
    for server in (*sentinels.pair.servers, *sentinels.three):
        client: Any = server.client()
        where = "watch" if server in sentinels.three else "count"
        rights = ("allcommands", "allchannels", *(() if server in sentinels.three else ("allkeys",)))
        client.execute_command("ACL", "SETUSER", f"{where}er", "on", f">{where}-sup3r&", *rights)
        client.execute_command("ACL", "SETUSER", "default", "resetpass", ">something else")
    login = urllib.parse.urlencode({"sentinel_username": "watcher", "sentinel_password": "watch-sup3r&"})

    async def main() -> None:
        whole = url_of(sentinels, login="counter:count-sup3r&@", tail=f"?{login}")
        async with Either.url(face, whole) as counters:
            counters.incr("x", 5)
            await counters.flush(10)
            assert await counters.get("x", max_age=0) == 5
            assert "sup3r" not in repr(counters.counters)
        for tail in ("", f"?{login}wrong"):
            counters = Either.url(face, url_of(sentinels, login="counter:count-sup3r&@", tail=tail))
            with pytest.raises(NotPermitted, match="sentinel_password") as told:
                await counters.get("x")
            assert "sup3r" not in str(told.value)
            await counters.close()
        counters = Either.url(face, url_of(sentinels, tail=f"?{login}"))
        with pytest.raises(NotPermitted, match="without a password"):
            await counters.get("x")
        await counters.close()

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_where_no_sentinel_knows(sentinels: Sentinels, face: str) -> None:
    """A service that they do not watch, and Sentinels that are gone: named in the error, without the password."""

    async def main() -> None:
        unknown = url_of(sentinels, login="u:sup3r@").replace(WATCHED, "elsewhere")
        counters = Either.url(face, unknown + "?sentinel_password=sup3r")
        for sentinel in sentinels.three:
            sentinel.kill()
        with pytest.raises(Unavailable, match=r"no Sentinel names a primary of 'elsewhere': 127.*; 127.*; 127") as told:
            await counters.get("x")
        assert "sup3r" not in str(told.value)
        await counters.close()
        for sentinel in sentinels.three:
            sentinel.restart()
        async with Either.url(face, unknown) as counters:
            with pytest.raises(Refused, match=r"^127\S+ knows no 'elsewhere'; 127.*; 127\S+ knows no 'elsewhere'$"):
                await counters.get("x")

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_one_sentinel_is_enough(sentinels: Sentinels, face: str) -> None:
    """Two of the three are gone when the client comes."""

    async def main() -> None:
        for sentinel in sentinels.three[:2]:
            sentinel.kill()
        async with Either.url(face, url_of(sentinels, tail="/0")) as counters:
            counters.incr("x", 3)
            await counters.flush(10)

    asyncio.run(main())
    assert truth(sentinels.pair.primary, ["x"]) == {b"x": 3}


@pytest.mark.parametrize("face", FACES)
def test_whose_fault_it_is(sentinels: Sentinels, face: str) -> None:
    """Which Sentinel said what: none is there, none knows the service, or one is no Sentinel; only the first passes."""
    primary, gone = sentinels.pair.primary, NOWHERE
    places = sentinels.url.partition("://")[2].partition("/")[0]
    cases: dict[str, tuple[type[Exception], list[str]]] = {
        f"redis+sentinel://127.0.0.1:{gone}/{WATCHED}": (Unavailable, [f"127.0.0.1:{gone}: ", "refused|failed"]),
        f"redis+sentinel://{places}/wrong": (Refused, [f"{place} knows no 'wrong'" for place in places.split(",")]),
        f"redis+sentinel://127.0.0.1:{primary.port}/x": (Refused, [f"127.0.0.1:{primary.port} is no Sentinel"]),
        f"redis://127.0.0.1:{sentinels.three[0].port}": (Refused, ["if this is a Sentinel, use redis.sentinel://"]),
    }

    async def main() -> None:
        for url, (kind, texts) in cases.items():
            counters = Either.url(face, url)
            counters.incr("a")
            for method, arguments in (("get", ("a",)), ("flush", (5 if kind is Refused else 1,))):
                with pytest.raises(kind) as raised:
                    await getattr(counters, method)(*arguments)
                assert [text for text in texts if not re.search(text, str(raised.value))] == [], url
            with pytest.raises(kind):
                await counters.close(0.5)

    asyncio.run(main())
