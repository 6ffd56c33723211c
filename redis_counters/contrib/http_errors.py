"""The HTTP responses to errors of this library that concern the sender of a request."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from redis_counters.errors import CounterError, InsufficientRights, KeyConflict, Overflow, Unavailable, UsageError


class Answer(NamedTuple):
    """An HTTP response."""

    status: int
    sentence: str
    headers: Mapping[str, str]


ANSWERED: tuple[type[CounterError], ...] = (KeyConflict, InsufficientRights, Overflow, Unavailable, UsageError)
"""The errors that have an answer. Any other, such as `Refused`, concerns the operator of the server: an error 500."""


def answer(error: CounterError) -> Answer | None:
    """Return the response to an error; None for one that does not concern the sender of the request."""
    if isinstance(error, Unavailable):
        return Answer(503, "Counting is not possible at the moment. Please try again.", {"Retry-After": "1"})
    if isinstance(error, KeyConflict):
        return Answer(422, "This key was used before, with another amount. Nothing was counted.", {})
    if isinstance(error, InsufficientRights):
        later = {} if error.retry_after is None else {"Retry-After": f"{math.ceil(error.retry_after)}"}
        return Answer(409, "There is not that much left. Nothing was changed.", later)
    if isinstance(error, Overflow):
        return Answer(400, "The number is too large. Nothing was counted.", {})
    if isinstance(error, UsageError) and error.argument is not None:
        return Answer(400, f"This is not accepted: {error}.", {})
    return None
