"""Which errors of this library are a matter between the application and its client, and what to answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from redis_counters.errors import CounterError, KeyConflict, Overflow, Unavailable, UsageError


class Answer(NamedTuple):
    """What to answer over HTTP."""

    status: int
    sentence: str
    headers: Mapping[str, str]


ANSWERED: tuple[type[CounterError], ...] = (KeyConflict, Overflow, Unavailable, UsageError)
"""The errors that have an answer. What else there is, `Refused`, is for those who run the server: an error 500."""


def answer(error: CounterError) -> Answer | None:
    """Return what to answer when this was raised; None for an error that whoever sent the request has no part in."""
    if isinstance(error, Unavailable):
        return Answer(503, "Counting is not possible at the moment. Please try again.", {"Retry-After": "1"})
    if isinstance(error, KeyConflict):
        return Answer(422, "This key was used before, with another amount. Nothing was counted.", {})
    if isinstance(error, Overflow):
        return Answer(400, "The number is too large. Nothing was counted.", {})
    if isinstance(error, UsageError) and error.argument is not None:
        return Answer(400, f"This is not accepted: {error}.", {})
    return None
