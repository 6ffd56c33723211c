"""The errors of redis-counters. Each answers three questions: whose fault, was it applied, may I repeat it?

=================  ==========================  =========================================  =========================
error              whose fault                 applied?                                   repeat?
=================  ==========================  =========================================  =========================
UsageError         the caller's                no, nothing was sent                       no, correct the call
Refused            what Redis holds or allows  no, nothing changed                        after the cause is removed
Unavailable        the server or the network   not as far as is known; kept and retried   not needed; doing it is safe
OutcomeUnknown     the network                 perhaps                                    not safe
=================  ==========================  =========================================  =========================

That is what they say in general; ``outcome`` of an error says it of the very call that raised it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from redis_counters.protocol.read.inspection import Inspection
    from redis_counters.protocol.wire.values import CounterValue

__all__ = [
    "BufferFull",
    "CounterError",
    "InsufficientRights",
    "KeyConflict",
    "NotPermitted",
    "NotRecorded",
    "Outcome",
    "OutcomeUnknown",
    "Overflow",
    "Refused",
    "SchemaMismatch",
    "Unavailable",
    "Unconfirmed",
    "UsageError",
    "WrongType",
]


E = TypeVar("E", bound="CounterError")


class Outcome(Enum):
    """What has become of what a call was to do, when it raises. A call that only reads has nothing to apply."""

    NOT_APPLIED = "not applied"
    """It has not happened, and will not by itself."""
    KEPT = "kept and retried"
    """It is kept here, or in the journal, and sent again by itself, without counting twice."""
    APPLIED = "applied"
    """It is done on the primary; that it is durable is not confirmed."""
    UNKNOWN = "unknown"
    """It may be done, or in part, or not at all; only the caller may repeat it."""


class CounterError(Exception):
    """Whatever this library raises, except the built-in TypeError for an argument of the wrong type.

    ``outcome``: what has become of what the call was to do.
    ``taken``: of `reset` and `delete`, what they took away all the same, in other shards; else 0.
    """

    taken: int = 0
    outcome: Outcome = Outcome.UNKNOWN


class UsageError(CounterError, ValueError):
    """The caller's mistake: nothing was sent, nothing changed.

    ``argument``: what was wrong with a call, where it is a value that may come from afar: name, amount, user, key,
    token or ttl; else None, and the program is wrong.
    """

    outcome = Outcome.NOT_APPLIED

    def __init__(self, message: str = "", *, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument


class Refused(CounterError):
    """Redis, or what it holds, said no: nothing changed.

    ``counter`` names the counter concerned, if it was one, ``keys`` the Redis keys. Of a call for many counters
    ``counter`` is the first of those that are refused, ``errors`` has the error of each, by name as given, and
    ``values`` what was read of all others. ``inspection``, of `inspect`: what the other shards hold.
    """

    outcome = Outcome.NOT_APPLIED

    def __init__(self, message: str, *, counter: bytes | None = None, keys: Iterable[bytes] = ()) -> None:
        super().__init__(message)
        self.counter = counter
        self.keys = tuple(keys)
        self.values: dict[str | bytes, CounterValue] = {}
        self.errors: dict[str | bytes, Refused] = {}
        self.inspection: Inspection | None = None


class Overflow(Refused):
    """The own slot of a counter would leave the range of int64; the amount was not counted, earlier ones stay."""


class WrongType(Refused):
    """A key of this counter, or of the namespace, holds something else; what was counted is kept, not applied."""


class KeyConflict(Refused):
    """This key was used in this counter already, with another amount or for something else: nothing was changed.

    Its time is not over. ``counted``: the amount that it was used with.
    """

    def __init__(self, message: str, *, counter: bytes | None = None, counted: int = 0) -> None:
        super().__init__(message, counter=counter)
        self.counted = counted


class InsufficientRights(Refused):
    """A bounded counter has not that much left, or not that much room below its cap: nothing was changed.

    ``needed``: the amount of the call; 0 of `give_back`. ``available``: what may be spent, or added, in this region.
    ``retry_after``: seconds after which there may be more; None if nothing is known to be on its way.
    """

    def __init__(
        self,
        message: str,
        *,
        counter: bytes | None = None,
        keys: Iterable[bytes] = (),
        needed: int = 0,
        available: int = 0,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, counter=counter, keys=keys)
        self.needed = needed
        self.available = available
        self.retry_after = retry_after


class NotPermitted(Refused):
    """The user of this connection may not run a command that is needed; the message names it."""


class SchemaMismatch(Refused):
    """The namespace was made by a version, or with a setting, that does not go with this one."""


class Unavailable(CounterError):
    """Not applied as far as is known; what was buffered is kept and sent again by itself, without counting twice.

    ``pending``: what is not acknowledged, amount per counter name (str where the name is UTF-8, else bytes).
    """

    def __init__(self, message: str, *, pending: Mapping[str | bytes, int] | None = None) -> None:
        super().__init__(message)
        self.pending: dict[str | bytes, int] = dict(pending or {})


class BufferFull(Unavailable):
    """`max_pending` names wait for Redis already: this call was not counted, it may be repeated later."""

    outcome = Outcome.NOT_APPLIED


class NotRecorded(Unavailable):
    """The journal cannot be written. A call that raises this was not counted, it may be repeated later."""

    outcome = Outcome.NOT_APPLIED


class Unconfirmed(Unavailable):
    """Applied on the primary; Redis answers, but cannot confirm what `durability` asks for."""

    outcome = Outcome.APPLIED


class OutcomeUnknown(CounterError):
    """May have been applied, and nothing protects a repetition."""


def quoted(name: str | bytes) -> str:
    """Return a name, key or field as errors and events quote it: the same text for a str and for its UTF-8 bytes."""
    if isinstance(name, bytes):
        with suppress(UnicodeDecodeError):
            return repr(name.decode())
    return repr(name)


def with_outcome(error: E, outcome: Outcome) -> E:
    """Return the error, which says now what has become of the call."""
    error.outcome = outcome
    return error


class _NotApplied:
    """A context in which is only read, or done what comes before: whatever is raised there, nothing was applied."""

    __slots__ = ()

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if isinstance(error, CounterError):
            error.outcome = Outcome.NOT_APPLIED


not_applied = _NotApplied()


def without_traceback(error: E, cause: BaseException | None = None) -> E:
    """Return the same error, and its cause, without their tracebacks: to keep one keeps no frames."""
    bare = copy.copy(error)
    if cause is error:  # ours already, made of what the client library raised
        cause = error.__cause__
    if cause is not None:
        with suppress(Exception):  # not everything can be copied
            bare.__cause__ = copy.copy(cause)
    return bare


def reworded(error: E, message: str) -> E:
    """Return the same error with another text. Its other fields, such as the counter concerned, stay."""
    other = copy.copy(error)
    other.args = (message,)
    return other
