"""Bounded counters: what is asked of one, what its hash says, and what the answers mean.

The hash is described in ``lua/bounded_apply.lua``. All its totals are texts; they become Python's ints here.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import NamedTuple

from redis_counters.crdt.bounded import Bounds
from redis_counters.crdt.shard_fields import INT64_MAX
from redis_counters.errors import (
    CounterError,
    InsufficientRights,
    KeyConflict,
    Outcome,
    Refused,
    UsageError,
    WrongType,
    quoted,
)
from redis_counters.protocol.keyed.calls import Call, key_bytes
from redis_counters.protocol.keyed.key_shards import refused
from redis_counters.protocol.keyed.operations import Uses
from redis_counters.protocol.wire.commands import Argument, ErrorReply, NoAnswer, Script
from redis_counters.protocol.wire.replies import BadReply
from redis_counters.protocol.wire.shard_fields import pairs_of
from redis_counters.protocol.wire.values import signed_amount

KEYED_TTL_MS, BRIEF_TTL_MS = 86_400_000, 60_000  # of records, with and without a key of the caller's
HERE = b""  # this region, in the names of fields: it has no other name before it joins others

ADD, SPEND, GIVE_BACK = b"+", b"-", b"r"
_DONE = {ADD: "added", SPEND: "spent"}
_TO_DO = {ADD: "add", SPEND: "spend"}
_UNPROTECTED = "; it may have been applied, and nothing protects a repetition: that takes a key"
_RECORD = re.compile(rb"=([+-])(\d+) (\w+)")
_COUNT = re.compile(rb"0|[1-9]\d*")


class Limits(NamedTuple):
    """The bounds of a counter, and how a script takes them: an empty text is no bound."""

    bounds: Bounds
    floor: bytes
    cap: bytes
    room: bytes


class Held(NamedTuple):
    """What a bounded counter holds: its value, and what may be spent in this region (None: any amount)."""

    value: int
    rights: int | None


def limits(floor: int | None, cap: int | None) -> Limits:
    """Return the bounds. Raises TypeError, UsageError for those that leave nothing to add or to spend."""
    bounds = Bounds(floor, cap, None if cap is None else HERE)
    room = None if cap is None else bounds.first_room(HERE)
    if floor is not None and floor == cap:
        raise UsageError(f"floor and cap are both {floor}: nothing could be added or spent")
    if max(abs(number) for number in (floor, cap, room) if number is not None) > INT64_MAX:
        raise UsageError(f"floor {floor} and cap {cap}, or what lies between them, are beyond int64")
    return Limits(bounds, *(b"" if number is None else b"%d" % number for number in (floor, cap, room)))


class BoundedCall(Call):
    """Something asked of a bounded counter."""

    __slots__ = ("limits",)

    def __init__(self, name: bytes, limits: Limits) -> None:
        super().__init__(name)
        self.limits = limits

    def refuse(self, text: bytes, key: bytes, script: Script | None) -> None:
        """The call ends with the error that Redis, or the script, has for this counter."""
        self.error = _of_key(refused(self.name, ErrorReply(text.decode("utf-8", "replace")), script), key)

    def other_bounds(self, floor: bytes, cap: bytes) -> UsageError:
        """Return the error for a counter with other bounds than this call has."""
        is_, asked = _words(floor, cap), _words(self.limits.floor, self.limits.cap)
        return UsageError(f"counter {quoted(self.name)} has {is_}, not {asked}; nothing was changed")


class Change(BoundedCall):
    """An amount is added or spent, or what a key has spent is given back. The answer is the script's.

    ``token``: of chance, the same however often the call is sent. Without a key it stands for one; of a call that gives
    back, it lets a repetition by the client know its own.
    """

    __slots__ = ("amount", "digest", "then", "token", "verb")

    def __init__(self, name: bytes, limits: Limits, verb: bytes, amount: int, key: str | bytes | None) -> None:
        super().__init__(name, limits)
        self.verb = verb
        self.amount = 0 if verb == GIVE_BACK else _amount(amount, name)
        self.digest = None if key is None else _digest(name, key_bytes("key", key))
        self.token = b""
        self.then = _UNPROTECTED if key is None else Call.then

    def arguments(self, token: bytes) -> tuple[Argument, ...]:
        """Return what the script is told. ``token``: of this call, if it is sent for the first time."""
        self.token = self.token or token
        _, floor, cap, room = self.limits
        amount = self.token if self.verb == GIVE_BACK else self.amount
        brief = b"b" if self.digest is None else b""
        return self.verb, self.digest or self.token, amount, floor, cap, room, brief

    def tried(self) -> bool:
        """Return whether it is done. Raises KeyConflict, UsageError for other bounds."""
        answer = self.checked()
        assert isinstance(answer, bytes)
        if answer == b"1":
            return True
        if answer == b"0" or re.fullmatch(rb"0 \d+", answer):
            return False
        floor, comma, cap = answer[1:].partition(b",")
        if answer.startswith(b"#") and comma:
            raise self.other_bounds(floor, cap)
        record = _RECORD.fullmatch(answer)
        if record is None:
            raise BadReply(f"counter {quoted(self.name)}: {quoted(answer[:40])} is no answer")
        raise KeyConflict(
            f"counter {quoted(self.name)}: {self._conflict(*record.groups())}; nothing was changed",
            counter=self.name,
            counted=int(record[2]),
        )

    def insisted(self) -> bool:
        """As `tried`. Raises InsufficientRights, if that is why not."""
        done = self.tried()
        answer = self.answer
        assert isinstance(answer, bytes)
        if done or answer == b"0":
            return done
        available = int(answer[2:])
        if self.verb == GIVE_BACK:
            told = f"there is room for {available} below the cap, and more was spent"
        elif self.verb == ADD:
            told = f"there is room for {available} below the cap, not for {self.amount}"
        else:
            told = f"{available} may be spent, not {self.amount}"
        raise InsufficientRights(
            f"counter {quoted(self.name)}: {told}; nothing was changed",
            counter=self.name,
            needed=self.amount,
            available=available,
        )

    def _conflict(self, sign: bytes, amount: bytes, outcome: bytes) -> str:
        if outcome not in (b"0", b"1"):
            return "what this key has spent was given back, or was to be; to spend again, use a new key"
        done = "was refused to" if outcome == b"0" else "has"
        what = f"this key {done} {(_TO_DO if outcome == b'0' else _DONE)[sign]} {int(amount)}"
        if self.verb == GIVE_BACK:
            return f"{what}: only what was spent is given back"
        return f"{what} already, and does not {_TO_DO[self.verb]} {self.amount} as well"


class Look(BoundedCall):
    """What does the counter hold? The answer is a `Held`."""

    __slots__ = ()

    only_reads = True
    outcome, then = Outcome.NOT_APPLIED, ""

    def take(self, raw: object, key: bytes) -> None:
        """The call ends with what the hash says."""
        try:
            if isinstance(raw, ErrorReply):
                raise refused(self.name, raw, None)
            if isinstance(raw, NoAnswer):
                raise raw.error
            self.answer = self._held(_fields(raw, self.name))
        except ValueError as error:
            wrong = f"counter {quoted(self.name)}: {error}"
            self.error = error if isinstance(error, UsageError) else _of_key(Refused(wrong, counter=self.name), key)
        except CounterError as error:
            self.error = _of_key(error, key)

    def held(self) -> Held:
        """Return the answer. Raises the error."""
        held = self.checked()
        assert isinstance(held, Held)
        return held

    def _held(self, fields: dict[bytes, bytes]) -> Held:
        """Raises ValueError for fields that make no sense."""
        bounds = self.limits.bounds
        if not fields:
            return Held(bounds.start, None if bounds.floor is None else 0)
        floor, cap = fields.get(b"f", b""), fields.get(b"c", b"")
        if not floor and not cap:
            raise ValueError("it has neither floor nor cap")
        if (floor, cap) != (self.limits.floor, self.limits.cap):
            raise self.other_bounds(floor, cap)
        if (floor != b"") != (b"a" in fields) or (cap != b"") != (b"h" in fields):
            raise ValueError("its rights (a) or its room (h) contradict its bounds")
        rights = None if bounds.floor is None else _count(b"a", fields[b"a"])
        value = bounds.start
        for field, text in fields.items():
            if field.startswith((b"+", b"-")):
                value += _count(field, text) if field.startswith(b"+") else -_count(field, text)
        return Held(value, rights)


def change(name: bytes, limits: Limits, verb: bytes, amount: int, key: str | bytes | None) -> Uses[None]:
    """The amount is added, or spent. Raises InsufficientRights."""
    call = Change(name, limits, verb, amount, key)
    yield [call]
    call.insisted()


def try_change(name: bytes, limits: Limits, verb: bytes, amount: int, key: str | bytes | None) -> Uses[bool]:
    """Return whether the amount is added, or spent."""
    call = Change(name, limits, verb, amount, key)
    yield [call]
    return call.tried()


def give_back(name: bytes, limits: Limits, key: str | bytes) -> Uses[bool]:
    """Return whether this call gave back what the key had spent. Raises InsufficientRights."""
    if key is None:
        raise TypeError("key must be a str or bytes, not NoneType")
    call = Change(name, limits, GIVE_BACK, 0, key)
    yield [call]
    return call.insisted()


def look(name: bytes, limits: Limits) -> Uses[Held]:
    """Return what the counter holds."""
    call = Look(name, limits)
    yield [call]
    return call.held()


def _amount(amount: int, name: bytes) -> int:
    checked = signed_amount(amount, name)
    if checked < 1:
        raise UsageError(f"amount must be at least 1, got {checked}", argument="amount")
    return checked


def _digest(name: bytes, key: bytes) -> bytes:
    """Return what stands for a key in records; no key of `incr_once` has the same."""
    return blake2b(b"%d:%b%b" % (len(name), name, key), digest_size=16, person=b"bounded").digest()


def _fields(raw: object, name: bytes) -> dict[bytes, bytes]:
    """Return the fields of a hash. Raises BadReply, WrongType."""
    if isinstance(raw, bytes) or (isinstance(raw, list) and len(raw) % 2):
        raise BadReply(f"expected a map, got {type(raw).__name__}")
    pairs = list(pairs_of(raw, name))
    if not all(isinstance(text, bytes) for pair in pairs for text in pair):
        raise BadReply("expected a map of texts")
    return dict(pairs)


def _count(field: bytes, text: bytes) -> int:
    if not _COUNT.fullmatch(text):
        raise ValueError(f"field {quoted(field)} is no count: {quoted(text[:40])}")
    return int(text)


def _words(floor: bytes, cap: bytes) -> str:
    """Return bounds as errors say them."""
    given = [f"{what} {bound.decode('utf-8', 'replace')}" for what, bound in (("floor", floor), ("cap", cap)) if bound]
    return " and ".join(given) if len(given) > 1 else f"{given[0]} and no {'cap' if floor else 'floor'}"


def _of_key(error: CounterError, key: bytes) -> CounterError:
    """Return the error of one counter, with the key that is wrong; what makes no sense there is a `WrongType`."""
    if not isinstance(error, Refused) or error.counter is None:
        return error
    kind = WrongType if type(error) is Refused else type(error)
    return kind(f"{error} (key {quoted(key)})", counter=error.counter, keys=(key,))
