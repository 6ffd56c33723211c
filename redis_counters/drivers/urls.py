"""From a URL to a client of redis-py, in either face, and to what ends together with it."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from redis_counters.drivers import sentinel_url
from redis_counters.errors import UsageError
from redis_counters.protocol.wire.options import DEFAULTS

URL_VARIABLE = "REDIS_COUNTERS_URL"  # of the environment
DEFAULT_URL = "redis://localhost:6379/0"
_CLUSTER = {
    "redis+cluster": "redis",
    "rediss+cluster": "rediss",
    "valkey+cluster": "redis",
    "valkeys+cluster": "rediss",
}
_CERT_REQS = re.compile(r"([?&]ssl_cert_reqs=)CERT_(NONE|OPTIONAL|REQUIRED)(?=&|$)")  # as Celery writes it
_TIMEOUTS = {"socket_timeout": 5.0, "socket_connect_timeout": 5.0}  # seconds
_PLAIN = {"redis": "redis", "rediss": "rediss", "unix": "unix", "valkey": "redis", "valkeys": "rediss"}


class Opened(NamedTuple):
    """A client made by us, and how to end what was started for it besides."""

    client: Any
    stop: Callable[[], None]
    pools: tuple[Any, ...] = ()  # of connections, which are closed with the client

    def connected(self) -> Any:
        """Return a client of redis-py itself; that of a cluster has to connect for it. Raises what redis-py raises."""
        return getattr(self.client, "open", lambda: self.client)()

    def stop_all(self) -> None:
        """The client (a blocking one) is closed, and what was started for it has ended."""
        self.client.close()
        for pool in self.pools:
            pool.disconnect()
        self.stop()

    async def stop_all_asyncio(self) -> None:
        """As `stop_all`, for a client of redis.asyncio."""
        await self.client.aclose()
        for pool in self.pools:
            await pool.disconnect()
        self.stop()


def open_url(url: str, *, asyncio: bool) -> Opened:
    """Return a client for the URL. It repeats a command once, at once: pacing is ours.

    Raises: UsageError, Unavailable (an embedded server that does not start).
    """
    if not isinstance(url, str):
        raise TypeError(f"url must be a str, not {type(url).__name__}")
    url = _CERT_REQS.sub(lambda found: found[1] + found[2].lower(), url)
    scheme, separator, rest = url.partition("://")
    scheme = scheme.lower()
    if not separator:
        raise UsageError("url must start with a scheme such as redis://")
    if scheme == "embedded":
        if rest:
            raise UsageError("url embedded:// takes nothing behind it")
        from redis_counters.drivers.embedded import EmbeddedServer, warn_if_not_alone

        warn_if_not_alone()
        server = EmbeddedServer.start()
        return Opened(_redis(server.url, asyncio=asyncio), server.stop)
    if scheme == "memory":
        return Opened(_fake(rest, asyncio=asyncio), _nothing)
    if scheme in _CLUSTER:
        return Opened(_cluster(f"{_CLUSTER[scheme]}://{rest}", asyncio=asyncio), _nothing)
    if scheme in sentinel_url.SCHEMES:
        return _sentinels(sentinel_url.taken_apart(scheme, rest), url, asyncio=asyncio)
    if scheme not in _PLAIN:
        known = ", ".join([*_PLAIN, *_CLUSTER, *sentinel_url.SCHEMES, "embedded", "memory"])
        raise UsageError(f"url has the scheme {scheme!r}; known are {known}")
    _check(scheme, url)
    return Opened(_redis(f"{_PLAIN[scheme]}://{rest}", asyncio=asyncio), _nothing)


def _check(scheme: str, url: str) -> None:
    """Refuse what redis-py would pass over. No message repeats a part of the URL: it may be one of a password."""
    wrong = ""
    try:
        parts = urlsplit(url)
        of_socket = scheme == "unix"
        if "#" in url or ("@" in parts.path and not of_socket):  # what follows would be passed over
            wrong = "is malformed"
    except ValueError:
        wrong = "is malformed"
    if not wrong:
        try:
            _ = parts.port
        except ValueError:
            wrong = "has a port that is no number from 0 to 65535"
    if wrong:
        raise UsageError(
            f"url {wrong}: it should be scheme://user:password@host:port/db, "
            "with user and password percent-encoded where they contain any of / # ? @ :"
        )
    if of_socket and parts.path in ("", "/"):
        raise UsageError("url of a socket must name its path: unix:///path/of/the.sock?db=0")
    if not of_socket and parts.path not in ("", "/") and not parts.path[1:].isdigit():
        raise UsageError("url must have the number of a database behind the last /, or nothing")


def _cluster(url: str, *, asyncio: bool) -> Any:
    """Return a client of redis.asyncio, or what makes one of redis when it is needed: that connects at once.

    Several servers may be named, host:port,host:port: the first that answers knows the others.
    """
    scheme, _, rest = url.partition("://")
    credentials, at, place = rest.rpartition("@")
    end = min((n for mark in "/?#" if (n := place.find(mark)) >= 0), default=len(place))
    servers = place[:end].split(",")
    urls = [f"{scheme}://{credentials}{at}{server}{place[end:]}" for server in servers]
    for each in urls:
        _check(scheme, each)
    parts = [urlsplit(each) for each in urls]
    if parts[0].path not in ("", "/", "/0"):
        raise UsageError("url of a cluster has no number of a database: a cluster has one, 0")
    addresses = [(part.hostname or "localhost", part.port or 6379) for part in parts]
    options: dict[str, Any] = {**_TIMEOUTS}
    with _accepted(url):
        _check_cluster_options(urls[0])
        if asyncio:
            from redis.asyncio.cluster import ClusterNode, RedisCluster

            return RedisCluster.from_url(urls[0], startup_nodes=[ClusterNode(*a) for a in addresses[1:]], **options)
        from redis_counters.drivers.redis_py.transports import LaterCluster

        return LaterCluster(urls[0], addresses[1:], options)


def _sentinels(watched: sentinel_url.SentinelUrl, url: str, *, asyncio: bool) -> Opened:
    """Return a client of the primary that the Sentinels name, each time it connects."""
    from redis_counters.drivers.redis_py.clients import new_connection
    from redis_counters.drivers.redis_py.sentinels import named

    with _accepted(url):
        parse_url: Any = _of_face("connection", asyncio=asyncio).parse_url
        ours = _one_server(asyncio=asyncio)
        options: dict[str, Any] = {**ours, **parse_url(watched.redis), "retry": ours["retry"]}
        for place in ("host", "port"):
            options.pop(place, None)
        if options.pop("connection_class", None) is not None:  # of rediss://
            options["ssl"] = True
        shared = {
            name: value for name, value in options.items() if name.startswith(("socket_", "ssl")) or name == "retry"
        }
        make: Any = _of_face("sentinel", asyncio=asyncio).Sentinel
        finder = make(watched.sentinels, sentinel_kwargs={**shared, **watched.login}, **options)
        named(finder, watched.sentinels, asyncio=asyncio)
        client = finder.master_for(watched.service, redis_class=_of_face("client", asyncio=asyncio).Redis)
        new_connection(client)
    return Opened(client, _nothing, tuple(each.connection_pool for each in (client, *finder.sentinels)))


def _redis(url: str, *, asyncio: bool) -> Any:
    from redis_counters.drivers.redis_py.clients import new_connection

    with _accepted(url):
        client = _of_face("client", asyncio=asyncio).Redis.from_url(url, **_one_server(asyncio=asyncio))
        new_connection(client)  # an option that no connection takes shows here, and not in the background later
    return client


def _of_face(module: str, *, asyncio: bool) -> Any:
    """Return redis-py's module of that name; the faces have the same ones."""
    return importlib.import_module(f"redis.asyncio.{module}" if asyncio else f"redis.{module}")


def _one_server(*, asyncio: bool) -> dict[str, Any]:
    """Return our options of a client of one server."""
    from redis.backoff import NoBackoff

    retry = _of_face("retry", asyncio=asyncio).Retry(NoBackoff(), 1)
    return {**_TIMEOUTS, "health_check_interval": 0, "retry": retry}


def _check_cluster_options(url: str) -> None:
    """Refuse what redis-py would pass over, or find out when it connects. Raises ValueError, TypeError, RedisError."""
    from redis.cluster import RedisCluster
    from redis.connection import Connection, parse_url

    parse: Any = parse_url  # without types in redis-py
    options = parse(url)
    kind = options.pop("connection_class", Connection)
    of_cluster = inspect.signature(RedisCluster).parameters
    while True:
        try:
            kind(**options)
            return
        except TypeError as error:
            unknown = _unknown_option(error)
            if unknown not in of_cluster or options.pop(unknown, None) is None:
                raise


def _unknown_option(error: Exception) -> str:
    found = re.search(r"unexpected keyword argument '?(\w+)", str(error))
    return found[1] if found else ""


@contextmanager
def _accepted(url: str) -> Iterator[None]:
    """Raises UsageError for what redis-py does not accept."""
    from redis.exceptions import RedisError

    try:
        yield
    except (ValueError, TypeError, RedisError) as error:
        if unknown := _unknown_option(error):
            ours = "; it is one of Counters: give it as a keyword" if unknown in DEFAULTS else ""
            what = f"has an option that redis-py does not know: {_without_secrets(unknown, url)}{ours}"
        else:
            what = f"is not accepted: {_without_secrets(str(error), url)}"
        raise UsageError(f"url {what}") from None


def _without_secrets(message: str, url: str) -> str:
    credentials, at, _ = url.partition("://")[2].rpartition("@")
    secrets = [credentials, *credentials.split(":")] if at else []
    secrets += [value for name, value in parse_qsl(url.partition("?")[2]) if "password" in name]
    for secret in filter(None, secrets):
        message = message.replace(secret, "***")
    return message


_memories: dict[str, Any] = {}


def _fake(name: str, *, asyncio: bool) -> Any:
    """Return a client of a server in this process; the same name (not empty) is the same server."""
    try:
        import fakeredis
    except ImportError:
        raise UsageError("memory:// needs fakeredis: install redis-counters with the extra `testing`") from None
    server = _memories.setdefault(name, fakeredis.FakeServer()) if name else fakeredis.FakeServer()
    return fakeredis.FakeAsyncRedis(server=server) if asyncio else fakeredis.FakeRedis(server=server)


def forget_memory(name: str) -> None:
    """The contents of ``memory://name`` are gone, when the last client of it is."""
    _memories.pop(name, None)


def _nothing() -> None:
    """There is nothing to end."""
