"""From a URL to a client of redis-py, in either face, and what has to end together with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from redis_counters.errors import UsageError

_PLAIN = {"redis": "redis", "rediss": "rediss", "unix": "unix", "valkey": "redis", "valkeys": "rediss"}


@dataclass(frozen=True, slots=True)
class Opened:
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
    if not separator:
        raise UsageError("url must start with a scheme such as redis://")
    if scheme == "embedded":
        from redis_counters.drivers.embedded import EmbeddedServer

        server = EmbeddedServer.start()
        return Opened(_redis(server.url, asyncio=asyncio), server.stop)
    if scheme == "memory":
        return Opened(_fake(rest, asyncio=asyncio), _nothing)
    if scheme not in _PLAIN:
        known = ", ".join([*_PLAIN, "embedded", "memory"])
        raise UsageError(f"url has the scheme {scheme!r}; known are {known}")
    _check(url)
    return Opened(_redis(f"{_PLAIN[scheme]}://{rest}", asyncio=asyncio), _nothing)


def _check(url: str) -> None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise UsageError(f"url is malformed: {_without_secrets(str(error), url)}") from None


def _without_secrets(message: str, url: str) -> str:
    credentials, at, _ = url.partition("://")[2].rpartition("@")
    return message.replace(credentials, "***") if at and credentials else message


def _redis(url: str, *, asyncio: bool) -> Any:
    if asyncio:
        import redis.asyncio as face
        from redis.asyncio.retry import Retry
    else:
        import redis as face  # type: ignore[no-redef]
        from redis.retry import Retry  # type: ignore[assignment]
    from redis.backoff import NoBackoff

    try:
        return face.Redis.from_url(
            url, retry=Retry(NoBackoff(), 1), socket_timeout=5.0, socket_connect_timeout=5.0, health_check_interval=0
        )
    except (ValueError, TypeError) as error:
        raise UsageError(f"url is not accepted: {_without_secrets(str(error), url)}") from None


_memories: dict[str, Any] = {}


def _fake(name: str, *, asyncio: bool) -> Any:
    """Return a client of a server in this process; the same name (not empty) is the same server."""
    try:
        import fakeredis
    except ImportError:
        raise UsageError("memory:// needs the extra `testing`: pip install 'redis-counters[testing]'") from None
    server = _memories.setdefault(name, fakeredis.FakeServer()) if name else fakeredis.FakeServer()
    return fakeredis.FakeAsyncRedis(server=server) if asyncio else fakeredis.FakeRedis(server=server)


def _nothing() -> None:
    """There is nothing to end."""
