"""From redis-py's exceptions, and from error replies of Redis, to errors of ours."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from redis import exceptions

from redis_counters.errors import CounterError, NotPermitted, Refused, Unavailable
from redis_counters.protocol.wire.commands import ErrorReply, NoAnswer
from redis_counters.protocol.wire.refusals import IN_A_CLUSTER, error_for, from_the_wrong_server
from redis_counters.protocol.wire.replies import BadReply

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
    (exceptions.ClusterCrossSlotError, "CROSSSLOT"),
)
# What Redis says of a connection that was given no password: to the first command, or to the HELLO of RESP3.
_NOT_LOGGED_IN = ("Authentication required", "NOAUTH", "HELLO must be called with the client already authenticated")
# redis-py says "No master found for 'x' : <a client> - ConnectionError('...'), <another> - network:TimeoutError".
_SERVICE = re.compile(r"No master found for ('[^']*'|\"[^\"]*\")")
_SENTINEL_SAID = re.compile(r"""> - (?:\w+:)?(\w+)(?:\((['"])(.*?)\2\))?(?=, <|, Redis<|$)""", re.DOTALL)
# What redis-py puts in front where no server of a cluster could be asked; and what it says of one that is in none.
_NO_NODE = "Redis Cluster cannot be connected. Please provide at least one reachable node: "
_NO_CLUSTER = ("Cluster mode is not enabled on this node", "this server is not part of a cluster, use redis:// for it")
NO_SENTINEL = "what should be a Sentinel is no Sentinel: for a Redis use redis://host:port"
_ASKED_FOR_SENTINEL = re.compile("unknown command ['`]SENTINEL['`]", re.IGNORECASE)
_ASKED_FOR_HASH = re.compile("unknown command ['`](HMGET|HGETALL|EVALSHA|EVAL)['`]", re.IGNORECASE)
# What redis-py says where a client with a cache_config meets a server that it keeps no cache of.
_NO_CACHE = ("To maximize compatibility with all Redis products", "Cannot retrieve information about server")
_ALL_IN_USE = ("Too many connections", "No connection available")  # of a pool that waits, when it has waited
_LOG_IN = "redis://user:password@host, or redis://:password@host"


def translate(error: BaseException) -> CounterError | None:
    """Return our error for one of redis-py's (or of the network), None if it is neither."""
    if isinstance(error, CounterError):
        return error
    if isinstance(ours := getattr(error, "told", None), CounterError):  # of Sentinels
        return ours
    if type(error).__name__ == "MasterNotFoundError":  # one class a face, in modules that few need
        return _no_primary(str(error))
    words = said(error)
    if isinstance(error, exceptions.AuthenticationError):
        if words.startswith(_NOT_LOGGED_IN):
            return NotPermitted(f"Redis does not accept the connection without a password: {_LOG_IN}")
        return NotPermitted(f"Redis does not accept the connection: {words}")
    if isinstance(error, exceptions.NoPermissionError):  # what redis-py asks on its own account
        return NotPermitted(f"Redis answered: {words}")
    if isinstance(error, exceptions.BusyLoadingError):  # to redis-py this is a broken connection
        return Unavailable(words if words.startswith("LOADING") else f"LOADING {words}")
    if isinstance(error, exceptions.ConnectionError) and words.startswith(_NO_CACHE):
        return Refused(f"redis-py refuses the client's cache_config here (make the client without it): {words}")
    if all_in_use(error):
        return Unavailable(
            "all connections that the client may have are in use, and none came free in time: give it more "
            "(max_connections of its pool), or let fewer threads and tasks ask at the same time"
        )
    if isinstance(error, (exceptions.ConnectionError, exceptions.TimeoutError, OSError, asyncio.TimeoutError)):
        return Unavailable(f"Redis is not reachable: {words or type(error).__name__}")
    if isinstance(error, exceptions.InvalidResponse):
        return BadReply(f"what answered is no Redis: {words}")
    if isinstance(error, exceptions.RedisClusterException):  # which is none of redis-py's RedisErrors
        return Unavailable(f"the cluster is not reachable: {words.removeprefix(_NO_NODE).replace(*_NO_CLUSTER)}")
    if isinstance(error, exceptions.RedisError):
        return Refused(f"Redis answered: {words}")
    return None


def _no_primary(text: str) -> CounterError:
    """Return our error where no Sentinel names a primary. redis-py (6 and 7) shows passwords in the text of its own."""
    service = _SERVICE.match(text)
    answers = _SENTINEL_SAID.findall(text)
    causes = "; ".join(dict.fromkeys(said.rstrip(".") or kind for kind, _quote, said in answers))
    what = f"no Sentinel names a primary{f' of {service[1]}' if service else ''}{f': {causes}' if causes else ''}"
    if answers and all(kind == "AuthenticationError" for kind, _quote, _said in answers):
        return NotPermitted(f"{what}: give sentinel_password, and sentinel_username if they have users")
    return Unavailable(f"Redis is not reachable: {what}")


def said(error: BaseException) -> str:
    """Return the error's text without a full stop: our sentences go on behind it."""
    words = str(error).rstrip(".")
    return NO_SENTINEL if _ASKED_FOR_SENTINEL.search(words) else words


def garbled(error: ValueError) -> exceptions.InvalidResponse:
    """Return what redis-py's own parser should have raised: it makes numbers of what comes by ``int``."""
    return exceptions.InvalidResponse(str(error))


def all_in_use(error: BaseException | None) -> bool:
    """True if a pool of redis-py would not give a connection because all of them are in use."""
    return isinstance(error, exceptions.ConnectionError) and str(error).startswith(_ALL_IN_USE)


def no_connection_left(error: CounterError) -> bool:
    """True if the pool gave no connection, for as long as was waited, because all of them were in use."""
    return all_in_use(error.__cause__)


def lacks_connection(answers: Sequence[object]) -> bool:
    """True if some command has no answer because all connections to its server were in use."""
    return any(isinstance(answer, NoAnswer) and no_connection_left(answer.error) for answer in answers)


def error_reply(error: exceptions.ResponseError) -> ErrorReply:
    """Return a Redis error with its code in front again: redis-py cuts off the codes that it knows."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            text = said(error)
            return ErrorReply(text if text.startswith(code) else f"{code} {text}")
    return ErrorReply(said(error) or "ERR")


def reply_to_one(error: exceptions.ResponseError) -> ErrorReply:
    """As `error_reply`, to a client of one server: it cannot go where a server of a cluster sends it."""
    reply = error_reply(error)
    if _ASKED_FOR_HASH.search(reply.text):
        return ErrorReply(f"{reply.text}; if this is a Sentinel, use redis+sentinel://host:port/service")
    return ErrorReply(IN_A_CLUSTER) if reply.code in ("MOVED", "ASK", "CROSSSLOT") else reply


def translate_reply(error: exceptions.ResponseError) -> CounterError:
    """Return our error for what Redis answered to a client of redis-py itself."""
    return error_for(reply_to_one(error), None)


def misled(answer: object) -> bool:
    return isinstance(answer, ErrorReply) and from_the_wrong_server(answer)
