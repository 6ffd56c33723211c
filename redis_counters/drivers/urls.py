"""From a URL to a client of redis-py, in either face, and what has to end together with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from redis_counters.errors import UsageError

URL_VARIABLE = "REDIS_COUNTERS_URL"  # of the environment
DEFAULT_URL = "redis://localhost:6379/0"
_PLAIN = {"redis": "redis", "rediss": "rediss", "unix": "unix", "valkey": "redis", "valkeys": "rediss"}


class Opened(NamedTuple):
    """A client made by us, and how to end what was started for it besides."""

    client: Any
    stop: Callable[[], None]

    def stop_all(self) -> None:
        """The client (a blocking one) is closed, and what was started for it has ended."""
        self.client.close()
        self.stop()

    async def stop_all_asyncio(self) -> None:
        """As `stop_all`, for a client of redis.asyncio."""
        await self.client.aclose()
        self.stop()


def open_url(url: str, *, asyncio: bool) -> Opened:
    """Return a client for the URL. It repeats a command once, at once: pacing is ours.

    Raises: UsageError, Unavailable (an embedded server that does not start).
    """
    if not isinstance(url, str):
        raise TypeError(f"url must be a str, not {type(url).__name__}")
    scheme, separator, rest = url.partition("://")
    scheme = scheme.lower()
    if not separator:
        raise UsageError("url must start with a scheme such as redis://")
    if scheme == "embedded":
        if rest:
            raise UsageError("url embedded:// takes nothing behind it")
        from redis_counters.drivers.embedded import EmbeddedServer

        server = EmbeddedServer.start()
        return Opened(_redis(server.url, asyncio=asyncio), server.stop)
    if scheme == "memory":
        return Opened(_fake(rest, asyncio=asyncio), _nothing)
    if scheme not in _PLAIN:
        known = ", ".join([*_PLAIN, "embedded", "memory"])
        raise UsageError(f"url has the scheme {scheme!r}; known are {known}")
    _check(scheme, url)
    return Opened(_redis(f"{_PLAIN[scheme]}://{rest}", asyncio=asyncio), _nothing)


def _check(scheme: str, url: str) -> None:
    """Refuse what redis-py would pass over. No message repeats a part of the URL: it may be one of a password."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise UsageError(
            "url is malformed: it should be scheme://user:password@host:port/db, "
            "with user and password percent-encoded where they contain any of / # ? @ :"
        ) from None
    if scheme != "unix" and parts.path not in ("", "/") and not parts.path[1:].isdigit():
        raise UsageError("url must have the number of a database behind the last /, or nothing")


def _redis(url: str, *, asyncio: bool) -> Any:
    if asyncio:
        import redis.asyncio as face
        from redis.asyncio.retry import Retry
    else:
        import redis as face  # type: ignore[no-redef]
        from redis.retry import Retry  # type: ignore[assignment]
    from redis.backoff import NoBackoff
    from redis.exceptions import RedisError

    try:
        client = face.Redis.from_url(
            url, retry=Retry(NoBackoff(), 1), socket_timeout=5.0, socket_connect_timeout=5.0, health_check_interval=0
        )
        # Made, not opened: an option that no connection takes shows here, and not in the background later.
        client.connection_pool.connection_class(**client.connection_pool.connection_kwargs)
    except (ValueError, TypeError, RedisError) as error:
        raise UsageError(f"url is not accepted: {_without_secrets(str(error), url)}") from None
    return client


def _without_secrets(message: str, url: str) -> str:
    credentials, at, _ = url.partition("://")[2].rpartition("@")
    for secret in (credentials, *credentials.split(":")):
        message = message.replace(secret, "***") if at and secret else message
    return message


_memories: dict[str, Any] = {}


def _fake(name: str, *, asyncio: bool) -> Any:
    """Return a client of a server in this process; the same name (not empty) is the same server."""
    try:
        import fakeredis
    except ImportError:
        raise UsageError("memory:// needs the extra `testing`: pip install 'redis-counters[testing]'") from None
    server = _memories.setdefault(name, fakeredis.FakeServer()) if name else fakeredis.FakeServer()
    return fakeredis.FakeAsyncRedis(server=server) if asyncio else fakeredis.FakeRedis(server=server)


def forget_memory(name: str) -> None:
    """What ``memory://name`` held is gone, when the last client of it is."""
    _memories.pop(name, None)


def _nothing() -> None:
    """There is nothing to end."""
