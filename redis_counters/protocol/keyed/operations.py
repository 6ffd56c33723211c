"""The methods of the faces that take keys: each a generator that yields calls to be done together."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping
from datetime import timedelta
from hashlib import blake2b
from typing import TypeVar

from redis_counters.crdt.shard_fields import INT64_MAX
from redis_counters.errors import WrongType, quoted
from redis_counters.protocol.keyed.calls import Call, Has, Like, Once, Plain, Seed, User
from redis_counters.protocol.wire.commands import pieces
from redis_counters.protocol.wire.replies import BadReply
from redis_counters.protocol.wire.values import Name, name_bytes

T = TypeVar("T")
N = TypeVar("N", bound=Name)
U = TypeVar("U", bound=User)
Uses = Generator[list[Call], None, T]

PAGE_SIZE = 500  # calls of one use that are done together, and members of a set that are read at a time


def incr_once(name: Name, key: str | bytes, amount: int, ttl: float | timedelta) -> Uses[bool]:
    """Return whether the amount was counted by this call."""
    call = Once(name, key, amount, ttl)
    yield [call]
    return call.done()


def like(name: bytes, user: User, sign: bytes) -> Uses[bool]:
    """Return whether the user liked (``+``), or not (``-``), by this call."""
    call = Like(name, user, sign)
    yield [call]
    return call.done()


def has(name: bytes, users: Iterable[U]) -> Uses[dict[U, bool]]:
    """Return those of these users that like. Raises TypeError."""
    if isinstance(users, (str, bytes)):
        raise TypeError(f"users must be an iterable of users, not one {type(users).__name__}")
    calls = {user: Has(name, user) for user in users}
    yield from _in_pages([*calls.values()])
    return {user: call.checked() == 1 for user, call in calls.items()}


def seed(totals: Mapping[N, int], token: str | bytes) -> Uses[None]:
    """Every counter has at least its total, as far as this token goes."""
    calls: list[Call] = [Seed(name, total, token) for name, total in totals.items()]
    yield from _in_pages(calls)
    for call in calls:
        call.checked()


def adopt(key: Name, name: Name | None) -> Uses[int]:
    """The counter has at least what a plain key holds; return that."""
    raw_key = name_bytes(key)
    reading = Plain(b"GET", raw_key)
    yield [reading]
    held = _plain(reading)
    if held is None:
        return 0
    text = held if isinstance(held, bytes) else str(held).encode()
    if not re.fullmatch(rb"-?\d{1,19}", text) or not ~INT64_MAX <= int(text) <= INT64_MAX:
        raise WrongType(f"key {quoted(raw_key)} holds no count", counter=raw_key)
    yield from seed({key if name is None else name: int(text)}, b"adopt:" + blake2b(raw_key, digest_size=16).digest())
    return int(text)


def adopt_likes(name: bytes, key: Name) -> Uses[int]:
    """Every member of a plain set likes; return how many did not before."""
    cursor, found = b"0", 0
    while True:
        reading = Plain(b"SSCAN", name_bytes(key), (cursor, b"COUNT", PAGE_SIZE))
        yield [reading]
        page = _plain(reading)
        if not isinstance(page, list) or len(page) != 2 or not isinstance(page[1], (list, set)):
            raise BadReply("expected a cursor and members")
        likes = [Like(name, user, b"+") for user in page[1]]
        yield from _in_pages([*likes])
        found += sum(call.done() for call in likes)
        cursor = page[0] if isinstance(page[0], bytes) else str(page[0]).encode()
        if cursor == b"0":
            return found


def _in_pages(calls: list[Call]) -> Uses[None]:
    """The calls are done: not all at once, for that would hold up all other clients."""
    for page in pieces(calls, PAGE_SIZE):
        yield list(page)


def _plain(call: Plain) -> object:
    """Return what Redis answered. Raises the error."""
    answer = call.checked()
    assert isinstance(answer, tuple)
    return answer[0]
