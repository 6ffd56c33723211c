"""What redis-py raises, and Redis answers, as errors of ours."""

from __future__ import annotations

import asyncio

from redis import exceptions

from redis_counters.errors import CounterError, NotPermitted, Refused, Unavailable
from redis_counters.protocol.commands import ErrorReply
from redis_counters.protocol.refusals import from_the_wrong_server

_CODES: tuple[tuple[type[Exception], str], ...] = (
    (exceptions.NoScriptError, "NOSCRIPT"),
    (exceptions.NoPermissionError, "NOPERM"),
    (exceptions.ReadOnlyError, "READONLY"),
    (exceptions.OutOfMemoryError, "OOM"),
    (exceptions.MasterDownError, "MASTERDOWN"),
    (exceptions.ClusterDownError, "CLUSTERDOWN"),
    (exceptions.TryAgainError, "TRYAGAIN"),
    (exceptions.MovedError, "MOVED"),
    (exceptions.AskError, "ASK"),
)
# What Redis says of a connection that was given no password: to the first command, or to the HELLO of RESP3.
_NOT_LOGGED_IN = ("Authentication required", "NOAUTH", "HELLO must be called with the client already authenticated")
_LOG_IN = "redis://user:password@host, or redis://:password@host"


def translate(error: BaseException) -> CounterError | None:
    """Return our error for one of redis-py's (or of the network), None if it is neither."""
    if isinstance(error, CounterError):
        return error
    said = _said(error)
    if isinstance(error, exceptions.AuthenticationError):
        if said.startswith(_NOT_LOGGED_IN):
            return NotPermitted(f"Redis does not accept the connection without a password: {_LOG_IN}")
        return NotPermitted(f"Redis does not accept the connection: {said}")
    if isinstance(error, exceptions.BusyLoadingError):  # to redis-py this is a broken connection
        return Unavailable(said if said.startswith("LOADING") else f"LOADING {said}")
    if isinstance(error, (exceptions.ConnectionError, exceptions.TimeoutError, OSError, asyncio.TimeoutError)):
        return Unavailable(f"Redis is not reachable: {said or type(error).__name__}")
    if isinstance(error, exceptions.RedisError):
        return Refused(f"Redis answered: {said}")
    return None


def _said(error: BaseException) -> str:
    """What it says, without a full stop, for our sentences go on behind it."""
    return str(error).rstrip(".")


def no_connection_left(error: Unavailable) -> bool:
    """True if the pool would not give a connection because all of them are in use."""
    return isinstance(error.__cause__, exceptions.ConnectionError) and "Too many connections" in str(error.__cause__)


def error_reply(error: exceptions.ResponseError) -> ErrorReply:
    """Return a Redis error with its code in front again: redis-py cuts off the codes that it knows."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            text = _said(error)
            return ErrorReply(text if text.startswith(code) else f"{code} {text}")
    return ErrorReply(_said(error) or "ERR")


def misled(answer: object) -> bool:
    return isinstance(answer, ErrorReply) and from_the_wrong_server(answer)
