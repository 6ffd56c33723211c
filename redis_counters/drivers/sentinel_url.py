"""The URL of Sentinels, taken apart: redis+sentinel://user:password@host:port,host:port/service/db?options.

User, password and options are those of the Redis that the Sentinels watch, except ``sentinel_username`` and
``sentinel_password``. No message repeats a part of the URL: it may be one of a password.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from redis_counters.errors import UsageError

SCHEMES = {
    "redis+sentinel": "redis",
    "rediss+sentinel": "rediss",
    "valkey+sentinel": "redis",
    "valkeys+sentinel": "rediss",
}
PORT = 26379  # of a Sentinel, where the URL names none
_FORM = "redis+sentinel://user:password@host:port,host:port/service/db"
_ENCODED = "user and password percent-encoded where they contain any of / # ? @ :"
_LOGIN = {"sentinel_username": "username", "sentinel_password": "password"}


class SentinelUrl(NamedTuple):
    """The Sentinels to ask, the service to ask for, and the options for Redis itself."""

    sentinels: list[tuple[str, int]]
    service: str
    login: dict[str, str]  # to the Sentinels
    redis: str  # a URL for redis-py, whose host means nothing


def taken_apart(scheme: str, rest: str) -> SentinelUrl:
    """Return what ``scheme://rest`` says. Raises: UsageError."""
    try:
        parts = urlsplit(f"{SCHEMES[scheme]}://{rest}")
    except ValueError:
        raise _wrong("is malformed") from None
    if "#" in rest or "@" in parts.path:
        raise _wrong("is malformed")
    credentials, at, hosts = parts.netloc.rpartition("@")
    each = hosts.split(",")
    sentinels = [_address(host, f"Sentinel {n} of {len(each)}") for n, host in enumerate(each, 1)]
    service, _, database = parts.path[1:].partition("/")
    if not service:
        raise _wrong("of Sentinels must name behind a / the service that they watch")
    login, options = _options(parts.query)
    if database and "db" in options:
        raise UsageError("url has the number of a database twice: behind the service, and as db=")
    database = options.pop("db", database) or "0"
    if not (database.isascii() and database.isdigit()):
        raise _wrong("has something else than the number of a database behind the service, or as db=")
    query = f"?{urlencode(options)}" if options else ""
    redis = f"{SCHEMES[scheme]}://{credentials}{at}localhost/{database}{query}"
    return SentinelUrl(sentinels, unquote(service), login, redis)


def _address(place: str, which: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{place}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _wrong(f"has no address host:port for {which}") from None
    if not host or port == 0 or parts.path or parts.query:
        raise _wrong(f"has no address host:port for {which}")
    return unquote(host), port or PORT


def _options(query: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options for the Sentinels, and those for Redis."""
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in options:
            raise UsageError("url has an option twice")
        options[name] = value
    login = {ours: options.pop(name) for name, ours in _LOGIN.items() if name in options}
    if "username" in login and "password" not in login:
        raise UsageError("url has sentinel_username without sentinel_password")
    return login, options


def _wrong(what: str) -> UsageError:
    return UsageError(f"url {what}: it should be {_FORM}, with {_ENCODED}")
