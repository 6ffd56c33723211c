"""The commands that ``doctor`` tries, as the connection's user; scratch keys lie in the namespace and are removed."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import redis
from redis.exceptions import NoScriptError

from redis_counters.drivers.redis_py.errors import reply_to_one
from redis_counters.protocol.wire.acl import of_a_key

Client = redis.Redis | redis.RedisCluster

# A denial contains one of these, in its code or, inside a script, in its text.
_DENIALS = ("NOPERM", "ACL failure", "The user executing the script can't")
# Tries every command that scripts call for counting, on a key that does not exist, and leaves none: nothing is written
# unless a command is allowed that removes it again.
TRY_COMMANDS = """
local key, answers = KEYS[1], {}
local function try(command, ...)
  local answer = redis.pcall(command, ...)
  local problem = type(answer) == 'table' and answer.err or ''
  answers[#answers + 1] = command
  answers[#answers + 1] = problem
  return problem == ''
end
try('TIME')
try('EXISTS', key)
try('HGET', key, 'f')
try('HMGET', key, 'f')
try('HGETALL', key)
local remover = try('HDEL', key, 'f') and 'HDEL'
for _, command in ipairs({'DEL', 'UNLINK'}) do
  if not remover and type(redis.pcall(command, key)) == 'number' then remover = command end
end
if remover then
  try('HSET', key, 'f', '1')
  try('HSETNX', key, 'f', '1')
  try('HINCRBY', key, 'f', '1')
  if remover == 'HDEL' then redis.call('HDEL', key, 'f') else redis.call(remover, key) end
end
return answers
"""
INSIDE = ("TIME", "EXISTS", "HGET", "HMGET", "HGETALL", "HDEL", "HSET", "HSETNX", "HINCRBY")


@dataclass(frozen=True, slots=True)
class Trial:
    """A command that was tried. ``error``: its text, empty if it worked, None if it could not be tried."""

    command: str
    error: str | None

    @property
    def denied(self) -> bool:
        return self.error is not None and any(word in self.error for word in _DENIALS)

    @property
    def denied_key(self) -> bool:
        """The command is allowed, the key is not."""
        return self.denied and of_a_key(self.error or "")

    @property
    def lacking(self) -> bool:
        """The server does not have the command, or not by this name."""
        error = (self.error or "").lower().replace("`", "'")
        return "unknown redis command" in error or f"unknown command {self.command.split()[0].lower()!r}" in error


def try_commands(client: Client, namespace: bytes) -> Iterator[Trial]:
    """Try every command that counting needs, on keys like those of counters. Cost: 5 round trips at most."""
    token = secrets.token_hex(8).encode()
    key, meta = b"{%b:0}:doctor:%b" % (namespace, token), b"%b:doctor:%b" % (namespace, token)
    sha = hashlib.sha1(TRY_COMMANDS.encode(), usedforsecurity=False).hexdigest()
    # In the order of the library: by its hash, and with its text where the server does not know it, which loads it.
    by_hash, answers = _try(client, "EVALSHA", sha, 1, key)
    yield by_hash
    if by_hash.denied_key:
        return
    by_text, answers_again = _try(client, "EVAL", TRY_COMMANDS, 1, key)
    yield by_text
    if by_text.denied_key:
        return
    texts = [text_of(answer) for answer in answers or answers_again or ()]
    inside = [Trial(command, error) for command, error in zip(texts[::2], texts[1::2], strict=True)]
    yield from inside
    yield from (Trial(command, None) for command in INSIDE if command not in {trial.command for trial in inside})
    if by_hash.error == "":
        on_meta, _ = _try(client, "EVALSHA", sha, 1, meta)
        if on_meta.error:
            yield Trial(f"EVALSHA on {namespace.decode()}:meta", on_meta.error)
    # Reads send these outside of scripts.
    yield _try(client, "HGETALL", key)[0]
    yield _try(client, "HMGET", key, b"f")[0]


def try_scans(client: Client, namespace: bytes) -> list[Trial]:
    """Try the reads of the janitor outside of scripts."""
    return [_try(client, "SCAN", b"0", b"COUNT", 1)[0], *_try_each(client, _scratch(namespace), ("HSCAN", b"0"))]


def try_keyed(client: Client, namespace: bytes) -> list[Trial]:
    """Try what keyed calls, counters that expire, and narrowing need besides. Leaves no key."""
    key = _scratch(namespace)
    tried = _try_each(
        client,
        key,
        ("SISMEMBER", b"m"),
        ("SMISMEMBER", b"m"),
        ("TYPE",),
        ("PTTL",),
        ("PEXPIREAT", 1),
        ("GET",),
        ("SET", b"", b"XX"),  # only if it is there, and it is not
        ("SREM", b"m"),
    )
    if not tried[-1].error:  # else the member that SADD adds would stay
        tried += _try_each(client, key, ("SADD", b"m"))
        _try(client, "SREM", key, b"m")
    return tried


def try_stamping(client: Client, namespace: bytes) -> list[Trial]:
    """Try what counting needs besides in a namespace that regions exchange. Leaves no key."""
    return _try_each(
        client,
        _scratch(namespace),
        ("ZSCORE", b"m"),
        ("ZMSCORE", b"m"),
        ("ZREVRANGEBYSCORE", 0, 0),
        ("ZREM", b"m"),
        ("ZADD", b"XX", 1, b"m"),  # only if it is there, and it is not
    )


def try_exchanging(client: Client, namespace: bytes) -> list[Trial]:
    """Try what an exchange between regions, and looking at one, need besides. Leaves no key."""
    ranges = [(command, 0, 0) for command in ("ZRANGEBYSCORE", "ZREVRANGE", "ZCOUNT")]
    return _try_each(client, _scratch(namespace), ("HKEYS",), *ranges, ("ZSCAN", b"0"))


def _scratch(namespace: bytes) -> bytes:
    return b"{%b:0}:doctor:%b" % (namespace, secrets.token_hex(8).encode())


def _try_each(client: Client, key: bytes, *calls: tuple[Any, ...]) -> list[Trial]:
    """Try commands on a key; each is its name and the arguments behind the key."""
    return [_try(client, command, key, *arguments)[0] for command, *arguments in calls]


def _try(client: Client, command: str, *arguments: Any) -> tuple[Trial, Any]:
    send: Any = client.execute_command  # without types in redis-py
    try:
        answer = send(command, *arguments)
    except NoScriptError:  # the server looks at permissions first: the user may run it
        return Trial(command, ""), None
    except redis.ResponseError as error:
        return failed(command, error), None
    return Trial(command, ""), answer


def failed(command: str, error: redis.ResponseError) -> Trial:
    """Return the trial with the server's words, and the code in front that redis-py takes off."""
    return Trial(command, reply_to_one(error).text)


def text_of(value: Any) -> str:
    """Return text that redis-py gives as bytes or as str."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
