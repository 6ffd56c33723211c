"""The errors of redis-counters. Each answers three questions: whose fault, was it applied, may I repeat it?

=================  ==========================  =========================================  =========================
error              whose fault                 applied?                                   repeat?
=================  ==========================  =========================================  =========================
UsageError         the caller's                no, nothing was sent                       no, correct the call
Refused            what Redis holds or allows  no, nothing changed                        after the cause is removed
Unavailable        the server or the network   not as far as is known; kept and retried   not needed; doing it is safe
OutcomeUnknown     the network                 perhaps                                    not safe
=================  ==========================  =========================================  =========================
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import suppress
from typing import TypeVar

__all__ = [
    "BufferFull",
    "CounterError",
    "KeyConflict",
    "NotPermitted",
    "NotRecorded",
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


class CounterError(Exception):
    """Whatever this library raises, except the built-in TypeError for an argument of the wrong type.

    ``taken``: of `reset` and `delete`, what they took away all the same, in other shards; else 0.
    """

    taken: int = 0


class UsageError(CounterError, ValueError):
    """The caller's mistake: nothing was sent, nothing changed.

    ``argument``: what was wrong with a call, where it is a value that may come from afar: name, amount, user, key,
    token or ttl; else None, and the program is wrong.
    """

    def __init__(self, message: str = "", *, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument


class Refused(CounterError):
    """Redis, or what it holds, said no: nothing changed. ``counter`` names the counter concerned, if it was one."""

    def __init__(self, message: str, *, counter: bytes | None = None) -> None:
        super().__init__(message)
        self.counter = counter


class Overflow(Refused):
    """The own slot of a counter would leave the range of int64; the amount was not counted, earlier ones stay."""


class WrongType(Refused):
    """A key of this counter, or of the namespace, holds something else; what was counted is kept, not applied."""


class KeyConflict(Refused):
    """This key has counted another amount in this counter already, and its time is not over: nothing was counted.

    ``counted``: the amount that it was used with.
    """

    def __init__(self, message: str, *, counter: bytes | None = None, counted: int = 0) -> None:
        super().__init__(message, counter=counter)
        self.counted = counted


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


class NotRecorded(Unavailable):
    """The journal cannot be written. A call that raises this was not counted, it may be repeated later."""


class Unconfirmed(Unavailable):
    """Applied on the primary; Redis answers, but cannot confirm what `durability` asks for."""


class OutcomeUnknown(CounterError):
    """May have been applied, and nothing protects a repetition."""


def quoted(name: str | bytes) -> str:
    """Return a name, key or field as errors and events quote it: the same text for a str and for its UTF-8 bytes."""
    if isinstance(name, bytes):
        with suppress(UnicodeDecodeError):
            return repr(name.decode())
    return repr(name)


def reworded(error: E, message: str) -> E:
    """Return the same error with another text. What else it tells, such as the counter concerned, stays."""
    told = copy.copy(error)
    told.args = (message,)
    return told
