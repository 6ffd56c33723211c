"""The commands of Redis that the scripts and the reads use, over hashes kept as dicts.

`test_server.py` holds them to Redis. A value is a dict (a hash) or bytes (a key of another type, which every command on
hashes refuses). Writers copy a hash
that a snapshot may still hold, so a snapshot of the database is a shallow copy of it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from zlib import crc32

Hash = dict[bytes, bytes]
Value = Hash | bytes

NONE: Mapping[bytes, int] = {}
PAGE = 3  # names that SCAN returns at a time
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_WHOLE = re.compile(rb"(0|-?[1-9][0-9]{0,18})\Z")


class Failure(Exception):  # noqa: N818 - it is a reply, not a fault
    """An error reply of Redis."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class Database:
    """One database. Replies: int, bytes, None, list, or str for a status."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.keys: dict[bytes, Value] = {}
        self.expiries: dict[bytes, int] = {}  # of some keys, epoch milliseconds
        self._own: set[bytes] = set()  # hashes that no snapshot holds
        self.writes = 0
        self.restored = 0  # another server each time, as INFO tells
        self.commands: dict[bytes, Callable[..., object]] = {
            b"HGET": self.hget,
            b"HMGET": self.hmget,
            b"HGETALL": self.hgetall,
            b"HSET": self.hset,
            b"HSETNX": self.hsetnx,
            b"HDEL": self.hdel,
            b"HINCRBY": self.hincrby,
            b"HEXISTS": self.hexists,
            b"HLEN": self.hlen,
            b"EXISTS": self.exists,
            b"DEL": self.delete,
            b"GET": self.get,
            b"SET": self.set,
            b"TIME": self.time,
            b"TYPE": self.type,
            b"PTTL": self.pttl,
            b"PEXPIREAT": self.pexpireat,
            b"HSCAN": self.hscan,
            b"SCAN": self.scan,
            b"INFO": self.info,
            b"ZADD": self.zadd,
        }

    # -- as a whole

    def snapshot(self) -> dict[bytes, Value]:
        """Return the content, which later writes leave as it is."""
        self._own.clear()
        return dict(self.keys)

    def restore(self, snapshot: dict[bytes, Value], expiries: Mapping[bytes, int] = NONE) -> None:
        """The content is that of the snapshot."""
        self._own.clear()
        self.keys, self.expiries = dict(snapshot), dict(expiries)
        self.restored += 1

    def due(self) -> list[bytes]:
        """Return the keys whose time is over: whoever keeps the clock deletes them before he runs a command."""
        now = self.clock() * 1000
        return [key for key, at in self.expiries.items() if at <= now]

    def fields(self, key: bytes) -> Hash:
        """Return a hash to look at; empty if there is none."""
        found = self.keys.get(key)
        return found if isinstance(found, dict) else {}

    # -- the commands

    def hget(self, key: bytes, field: bytes) -> bytes | None:
        return self._hash(key).get(field)

    def hmget(self, key: bytes, *fields: bytes) -> list[bytes | None]:
        found = self._hash(key)
        return [found.get(field) for field in fields]

    def hgetall(self, key: bytes) -> list[bytes]:
        return [part for pair in self._hash(key).items() for part in pair]

    def hexists(self, key: bytes, field: bytes) -> int:
        return int(field in self._hash(key))

    def hlen(self, key: bytes) -> int:
        return len(self._hash(key))

    def hset(self, key: bytes, *pairs: bytes) -> int:
        if not pairs or len(pairs) % 2:
            raise Failure("ERR wrong number of arguments for 'hset' command")
        target = self._to_write(key)
        before = len(target)
        target.update(zip(pairs[::2], pairs[1::2], strict=True))
        return len(target) - before

    def hsetnx(self, key: bytes, field: bytes, value: bytes) -> int:
        if field in self._hash(key):
            return 0
        self._to_write(key)[field] = value
        return 1

    def hdel(self, key: bytes, *fields: bytes) -> int:
        if self._hash(key).keys().isdisjoint(fields):
            return 0
        target = self._to_write(key)
        gone = sum(target.pop(field, None) is not None for field in fields)
        if not target:
            self.delete(key)
        return gone

    def hincrby(self, key: bytes, field: bytes, amount: bytes) -> int:
        step = _whole(amount)
        if step is None:
            raise Failure("ERR value is not an integer or out of range")
        old = _whole(self._hash(key).get(field, b"0"))
        if old is None:
            raise Failure("ERR hash value is not an integer")
        total = old + step
        if not INT64_MIN <= total <= INT64_MAX:
            raise Failure("ERR increment or decrement would overflow")
        self._to_write(key)[field] = b"%d" % total
        return total

    def get(self, key: bytes) -> bytes | None:
        found = self.keys.get(key)
        if isinstance(found, dict):
            raise Failure("WRONGTYPE Operation against a key holding the wrong kind of value")
        return found

    def set(self, key: bytes, value: bytes) -> str:
        self.delete(key)
        self.keys[key] = value
        return "OK"

    def exists(self, *keys: bytes) -> int:
        return sum(key in self.keys for key in keys)

    def delete(self, *keys: bytes) -> int:
        self.writes += 1
        for key in keys:
            self.expiries.pop(key, None)
        return sum(self.keys.pop(key, None) is not None for key in keys)

    def type(self, key: bytes) -> str:
        found = self.keys.get(key)
        return "none" if found is None else "hash" if isinstance(found, dict) else "string"

    def pttl(self, key: bytes) -> int:
        if key not in self.keys:
            return -2
        at = self.expiries.get(key)
        return -1 if at is None else at - int(self.clock() * 1000)

    def pexpireat(self, key: bytes, at: bytes) -> int:
        if key not in self.keys:
            return 0
        self.writes += 1
        if int(at) <= int(self.clock() * 1000):  # a time in the past deletes
            return self.delete(key)
        self.expiries[key] = int(at)
        return 1

    def time(self) -> list[bytes]:
        seconds, micros = divmod(int(self.clock() * 1_000_000), 1_000_000)
        return [b"%d" % seconds, b"%d" % micros]

    def hscan(self, key: bytes, _cursor: bytes, *_options: bytes) -> list[object]:
        """The whole of it at once, as Redis does with a small hash."""
        return [b"0", self.hgetall(key)]

    def scan(self, cursor: bytes, _match: bytes, pattern: bytes, *_options: bytes) -> list[object]:
        """A page of names, in an order that does not depend on which others are there."""
        match, start = _as_expression(pattern), int(cursor)
        ahead = sorted((crc32(key), key) for key in self.keys if crc32(key) >= start)
        page, rest = ahead[:PAGE], ahead[PAGE:]
        return [b"%d" % rest[0][0] if rest else b"0", [key for _, key in page if match.fullmatch(key)]]

    def info(self, _section: bytes) -> bytes:
        return b"run_id:%d\r\nmaxmemory_policy:noeviction\r\n" % self.restored

    def zadd(self, _key: bytes, *_pairs: bytes) -> int:
        """What is made with a registry, and stays empty where there is one deployment."""
        return 0

    def _hash(self, key: bytes) -> Hash:
        found = self.keys.get(key)
        if found is None:
            return {}
        if isinstance(found, dict):
            return found
        raise Failure("WRONGTYPE Operation against a key holding the wrong kind of value")

    def _to_write(self, key: bytes) -> Hash:
        self.writes += 1
        found = self._hash(key)
        if key not in self._own:
            self._own.add(key)
            found = self.keys[key] = dict(found)
        elif key not in self.keys:
            self.keys[key] = found
        return found


@functools.cache
def _as_expression(pattern: bytes) -> re.Pattern[bytes]:
    """Return a pattern of Redis, with ``*`` in it and nothing else, as a regular expression."""
    return re.compile(b".*".join(map(re.escape, pattern.split(b"*"))), re.DOTALL)


def _whole(text: bytes) -> int | None:
    """Return the int64 that Redis would read, None if it would not."""
    if not _WHOLE.match(text):
        return None
    number = int(text)
    return number if INT64_MIN <= number <= INT64_MAX else None
