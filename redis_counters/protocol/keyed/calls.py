"""Calls that are idempotent by a key of the caller's, as values: arguments checked, an outcome to be filled in.

A key always meets its own record, because it alone decides on the shard: crc32 of the key, or of the user, modulo the
number of key shards, which is settled once per counter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from hashlib import blake2b
from zlib import crc32

from redis_counters.errors import KeyConflict, Outcome, Unavailable, UsageError, quoted, reworded, with_outcome
from redis_counters.protocol.wire.values import Name, name_bytes, signed_amount

MAX_KEY_BYTES = 1024  # bytes of a key, a user id or a token
MAX_TTL_MS = 100 * 366 * 86_400_000  # milliseconds

User = str | bytes | int


class Call:
    """Something to be asked of Redis for a counter. It ends with an answer or an error."""

    __slots__ = ("answer", "error", "name")

    what = "counter"
    only_reads = False
    outcome, then = Outcome.UNKNOWN, "; it may have been applied, and may be repeated"  # where there is no answer

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.answer: object = None
        self.error: Exception | None = None

    @property
    def open(self) -> bool:
        """Neither answered nor failed."""
        return self.answer is None and self.error is None

    @property
    def hash(self) -> int:
        """Return the text that decides on the shard; shard 0 where there is none."""
        return 0

    def checked(self) -> object:
        """Return the answer. Raises the error."""
        if isinstance(self.error, Unavailable):  # one for all that went together: each has an error of its own
            error = reworded(self.error, f"{self.what} {quoted(self.name)}: {self.error}{self.then}")
            raise with_outcome(error, self.outcome) from self.error.__cause__
        if self.error is not None:
            raise self.error
        return self.answer

    def done(self) -> bool:
        """Return whether this call changed something: not, if all was so before. Raises the error."""
        return self.checked() in (b"1", b"2")


class Once(Call):
    """Count an amount, unless this key has done so within its ttl."""

    __slots__ = ("amount", "digest", "key_hash", "ttl")

    def __init__(self, name: Name, key: str | bytes, amount: int, ttl: float | timedelta) -> None:
        super().__init__(name_bytes(name))
        raw = key_bytes("key", key)
        self.amount = signed_amount(amount, name)
        if self.amount < 0:
            raise UsageError(
                f"amount must not be negative, got {self.amount}; count what is taken away in a counter of its own",
                argument="amount",
            )
        self.ttl = milliseconds(ttl)
        self.key_hash = crc32(raw)
        self.digest = blake2b(b"%d:%b%b" % (len(self.name), self.name, raw), digest_size=16).digest()

    @property
    def hash(self) -> int:
        return self.key_hash

    def done(self) -> bool:
        """Return whether it counted. Raises KeyConflict for a key that was used with another amount."""
        answer = self.checked()
        if isinstance(answer, bytes) and answer.startswith(b"="):
            counted = int(answer[1:])
            raise KeyConflict(
                f"counter {quoted(self.name)}: this key has counted {counted} already, and does not count "
                f"{self.amount} as well; nothing was counted",
                counter=self.name,
                counted=counted,
            )
        return super().done()


class Like(Call):
    """A user likes, or (sign ``-``) likes no more."""

    __slots__ = ("sign", "user")

    def __init__(self, name: bytes, user: User, sign: bytes) -> None:
        super().__init__(name)
        self.user = user_bytes(user)
        self.sign = sign

    @property
    def hash(self) -> int:
        return crc32(self.user)


class Has(Call):
    """Does the user like? The answer is 1 or 0."""

    __slots__ = ("user",)

    only_reads = True
    outcome, then = Outcome.NOT_APPLIED, ""

    def __init__(self, name: bytes, user: User) -> None:
        super().__init__(name)
        self.user = user_bytes(user)

    @property
    def hash(self) -> int:
        return crc32(self.user)


class Seed(Call):
    """A counter has at least a total from elsewhere; ``token`` says from where."""

    __slots__ = ("slot", "total")

    def __init__(self, name: Name, total: int, token: str | bytes) -> None:
        super().__init__(name_bytes(name))
        self.total = signed_amount(total, name)
        self.slot = seed_slot(key_bytes("token", token))


class Plain(Call):
    """A command that only reads, on a key of the caller's own; the answer is Redis's."""

    __slots__ = ("args", "key", "verb")

    what = "key"
    only_reads = True
    then = "; the call may be repeated"  # what is made of earlier answers may be applied

    def __init__(self, verb: bytes, key: bytes, args: Sequence[bytes | int] = ()) -> None:
        super().__init__(key)
        self.verb = verb
        self.key = key
        self.args = args


def seed_slot(token: bytes) -> bytes:
    """Return the slot of a seed. It has one dot, an actor's id has two: so it is not taken for an actor."""
    return b"s." + blake2b(token, digest_size=12).hexdigest().encode()


def user_bytes(user: User) -> bytes:
    """Return a user id as bytes; an int is its decimal text. Raises TypeError, UsageError."""
    if isinstance(user, int) and not isinstance(user, bool):
        return b"%d" % user
    if not isinstance(user, (str, bytes)):
        raise TypeError(f"user must be a str, bytes or int, not {type(user).__name__}")
    return key_bytes("user", user)


def milliseconds(ttl: float | timedelta) -> int:
    """Return a ttl, seconds or a timedelta, in milliseconds. Raises TypeError, UsageError."""
    if type(ttl) is int and 0 < ttl <= MAX_TTL_MS // 1000:  # most are
        return 1000 * ttl
    if isinstance(ttl, timedelta):
        found = -(-ttl // timedelta(milliseconds=1))  # rounded up
    elif isinstance(ttl, bool) or not isinstance(ttl, (int, float)):
        raise TypeError(f"ttl must be a number of seconds or a timedelta, not {type(ttl).__name__}")
    elif not 0 < ttl <= MAX_TTL_MS:
        found = 0
    else:
        found = math.ceil(ttl * 1000)
    if not 0 < found <= MAX_TTL_MS:
        raise UsageError(f"ttl must be above 0 and at most 100 years, got {ttl!r}", argument="ttl")
    return found


def key_bytes(what: str, value: str | bytes) -> bytes:
    """Return a key, or what else (``what``) tells calls apart, as bytes. Raises TypeError, UsageError."""
    if not isinstance(value, (str, bytes)):
        raise TypeError(f"{what} must be a str or bytes, not {type(value).__name__}")
    try:
        raw = value.encode() if isinstance(value, str) else bytes(value)
    except UnicodeEncodeError:
        raise UsageError(f"{what} must be valid Unicode, got {value!r}", argument=what) from None
    if not 0 < len(raw) <= MAX_KEY_BYTES:
        raise UsageError(f"{what} must have between 1 and {MAX_KEY_BYTES} bytes, got {len(raw)}", argument=what)
    return raw
