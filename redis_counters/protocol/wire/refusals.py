"""The meaning of an error of Redis: whose fault it is, and that nothing of the command was applied."""

from __future__ import annotations

import re
from collections.abc import Mapping

from redis_counters.errors import CounterError, NotPermitted, Refused, Unavailable, WrongType, quoted
from redis_counters.protocol.wire.acl import is_denied, key_patterns, of_a_key, with_candidates
from redis_counters.protocol.wire.commands import ErrorReply, Script
from redis_counters.protocol.wire.keys import name_of
from redis_counters.protocol.wire.replies import Reply
from redis_counters.protocol.wire.values import CounterValue

_PASSING = frozenset(
    (
        "BUSY",
        "LOADING",
        "MASTERDOWN",
        "READONLY",
        "OOM",
        "MISCONF",
        "NOREPLICAS",
        "CLUSTERDOWN",
        "TRYAGAIN",
        "MOVED",
        "ASK",
    )
)

# Of a key that a script has emptied while its hash slot is on its way to another server, and asks for once more.
_ON_ITS_WAY = "attempted to access a non local key"

# What a driver makes of an answer that sends a client of one server to another.
IN_A_CLUSTER = (
    "CLUSTER this server is part of a cluster: use redis+cluster:// or a RedisCluster client; nothing was applied"
)

MAX_NAMED = 3  # of the counters that are refused in one call, in its error's text

_KNOWN = _PASSING | {"NOSCRIPT", "NOPERM", "NOAUTH", "WRONGPASS", "WRONGTYPE", "BADARG", "CLUSTER"}


def surely_not_applied(reply: ErrorReply) -> bool:
    """True if Redis itself has said so. An error of a proxy (a time-out, say) may stand for a command that was."""
    return reply.code in _KNOWN


def from_the_wrong_server(reply: ErrorReply) -> bool:
    """True if another server may be the primary by now: it is to be looked for again, on a new connection."""
    return reply.code in ("READONLY", "MASTERDOWN") or "-READONLY " in reply.text


def error_for(reply: ErrorReply, script: Script | None, key: bytes | None = None) -> CounterError:
    """Return our error for an error of Redis to a whole command. ``key``: the one that it must be of, if of any."""
    what = f"{script.value}: " if script else ""
    if reply.code == "NOPERM" or is_denied(reply.text):
        patterns = f"; keys of a namespace NS are those of {key_patterns('NS')}" if of_a_key(reply.text) else ""
        return NotPermitted(f"{what}{with_candidates(reply.text, script)}{patterns}")
    if reply.code in ("NOAUTH", "WRONGPASS"):
        return NotPermitted(f"{what}{reply.code} the connection is not authenticated")
    if reply.text == IN_A_CLUSTER:
        return Refused(reply.text.partition(" ")[2])
    # Redis 6.2 puts the error of a command inside a script into a sentence of its own.
    passes = any(f"-{code} " in reply.text for code in _PASSING) or "OOM" in reply.text or _ON_ITS_WAY in reply.text
    if reply.code in _PASSING or passes:
        primary = "; connect to the primary" if "READONLY " in reply.text else ""
        return Unavailable(f"{what}{_without_script(reply.text)}{primary}")
    if "WRONGTYPE" in reply.text and key is not None:
        return WrongType(f"{what}the key {quoted(key)} holds something else: {reply.text}")
    return Refused(f"{what}{reply.text}")


def raise_refused(reply: Reply, key: bytes | None) -> None:
    """Raises what Redis refused of the one shard that a script was to change."""
    text = reply.text(0).decode("utf-8", "replace") if reply.values else ""
    if text.startswith("!") and key is not None:
        raise refusal(key, text[1:])


def of_counter(raw: object, key: bytes) -> object:
    """Return the answer of a script that is about this shard alone. Raises what Redis, or the script, refuses of it."""
    if isinstance(raw, ErrorReply) and ("WRONGTYPE" in raw.text or raw.code == "BADARG"):
        # Redis 6.2 has a sentence in front of it, later ones the script behind it.
        raise refusal(key, _without_script(raw.text[max(0, raw.text.find("WRONGTYPE")) :]))
    return raw


def _without_script(text: str) -> str:
    """Return what an error says, without which line of which script it came from."""
    return re.sub(r"\.? script: [0-9a-f]+, on @\w+:\d+\.?$", "", text)


def refusal(key: bytes, text: str) -> Refused:
    """Return the error for a counter that Redis refuses alone."""
    if text.startswith("WRONGTYPE"):
        return wrong_type(key, text)
    name = name_of(key)
    kind = NotPermitted if is_denied(text) else Refused
    return kind(f"counter {quoted(name)}: {text}", counter=name, keys=(key,))


def wrong_type(key: bytes, why: str) -> WrongType:
    """Return the error for a key that is to be a shard of a counter, and holds something else."""
    name = name_of(key)
    what = f"counter {quoted(name)}: the key {quoted(key)} holds something else: {why}"
    return WrongType(what, counter=name, keys=(key,))


def of_shard(key: bytes, error: Refused | ValueError) -> Refused:
    """Return what keeps a shard from being read, with its key."""
    name = name_of(key)
    if isinstance(error, (ValueError, WrongType)):
        return wrong_type(key, str(error).removeprefix(f"counter {quoted(name)}: "))
    error.counter, error.keys = name, (key,)
    return error


def of_many(errors: dict[bytes, Refused], values: Mapping[bytes, CounterValue]) -> Refused:
    """Return the error for a read of many counters of which some are refused: it has the values of the others."""
    first, *more = errors.values()
    texts = [str(error) for error in (first, *more[: MAX_NAMED - 1])]
    if len(errors) > MAX_NAMED:
        texts.append(f"and {len(errors) - MAX_NAMED:,} more")
    keys = [key for error in errors.values() for key in error.keys]
    found = type(first)("; ".join(texts), counter=first.counter, keys=keys)
    found.errors = {name: error for name, error in errors.items()}  # noqa: C416 - of another type
    found.values = {name: value for name, value in values.items()}  # noqa: C416 - of another type
    return found
