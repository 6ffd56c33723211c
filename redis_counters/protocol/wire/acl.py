"""Find the command that an ACL denied: up to Redis 7.0 a script's error does not name it.

Then each command that the script calls is sent by itself, in a form that changes nothing even where it is allowed: the
server looks at permissions first, and at what is asked only then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from redis_counters.protocol.wire.commands import Argument, Command, ErrorReply, Script
from redis_counters.protocol.wire.scripts import calls

KEYLESS = ("TIME", "INFO")

# How each command is tried on a registry. HSET has a field without a value, HINCRBY no number: both are errors. HSETNX
# finds its field there; in a registry that has just been deleted, it says what an absent one means too. What is for
# sets, sorted or not, finds a hash, PEXPIREAT, SET and ZADD no number. SADD could make a set of what was deleted:
# without a member it is not tried.
_TRIALS: dict[str, tuple[Argument, ...]] = {
    "EXISTS": (),
    "HDEL": (b"",),
    "HGET": (b"n",),
    "HINCRBY": (b"", b"none"),
    "HMGET": (b"n",),
    "HSET": (b"", b"", b""),
    "HSETNX": (b"n", b"0"),
    "PEXPIREAT": (b"none",),
    "SET": (b"", b"PX", b"none"),
    "SISMEMBER": (b"",),
    "SREM": (b"",),
    "INFO": (b"server",),
    "ZADD": (b"none", b""),
    "ZMSCORE": (b"",),
    "ZRANGEBYSCORE": (b"none", b"none"),
    "ZREM": (b"",),
    "ZREVRANGE": (b"0", b"0"),
    "ZREVRANGEBYSCORE": (b"none", b"none"),
    "ZSCORE": (b"",),
}

# A command that is denied inside a script is told in words only, and by each kind of server in others.
MIN_BYTES = 20  # bytes of such an error, at least: most answers are looked at no further
_DENIED = ("no permissions", "can't run this command", "ACL failure")


def is_denied(text: str) -> bool:
    """True if an error says that the user lacks a permission."""
    return any(words in text for words in _DENIED)


def of_a_key(text: str) -> bool:
    """True if such an error is about a key: the command is allowed."""
    return "access" in text and "key" in text


def key_patterns(namespace: str) -> str:
    """Return the rules that let a user at all keys of a namespace."""
    return f"~{namespace}:* ~{{{namespace}:*}}:*"


def is_unnamed(text: str) -> bool:
    """True if it does not say which."""
    return "can't run this command" in text and "may not run" not in text


def lacks_name(raw: object) -> bool:
    """True if an answer, or the error of a counter in it, is such an error."""
    if isinstance(raw, ErrorReply):
        return is_unnamed(raw.text)
    if not isinstance(raw, list):
        return False
    return any(is_unnamed(_text(part)) for part in raw[1:] if not isinstance(part, bytes) or len(part) > MIN_BYTES)


def trials(commands: Iterable[Command]) -> list[Command]:
    """Return what these scripts call, once each, to be tried by itself."""
    found: dict[str, Command] = {}
    for command in commands:
        assert command.script is not None
        for call in calls(command.script):
            keys = () if call in KEYLESS else command.keys[:1]
            found[call] = Command(None, keys, _TRIALS.get(call, ()), call.encode())
    return list(found.values())


def denied_of(tried: Sequence[Command], answers: Iterable[object]) -> list[str]:
    """Return the names of the commands that were denied."""
    pairs = zip(tried, answers, strict=True)
    return [
        c.plain.decode()
        for c, raw in pairs
        if isinstance(raw, ErrorReply) and (raw.code == "NOPERM" or is_denied(raw.text))
    ]


def named(raw: object, denied: Sequence[str]) -> object:
    """Return the answer with the names in its errors."""
    if isinstance(raw, ErrorReply):
        return ErrorReply(named_text(raw.text, denied))
    if isinstance(raw, list):
        return [named_text(_text(p), denied).encode() if is_unnamed(_text(p)) else p for p in raw]
    return raw


def named_text(text: str, denied: Sequence[str]) -> str:
    """Return an error's text with the names, where it lacks them."""
    if not denied or not is_unnamed(text):
        return text
    return f"{text.partition(' script: ')[0]}; this user may not run {', '.join(denied)}"


def with_candidates(text: str, script: Script | None) -> str:
    """Return an error's text with all that the script calls, where it is not known which of it was denied."""
    if script is None or not is_unnamed(text):
        return text
    return f"{text.partition(' script: ')[0]}; it calls {', '.join(calls(script))}"


def _text(part: object) -> str:
    return part.decode("utf-8", "replace") if isinstance(part, bytes) else str(part)
