"""Waiting for a Redis that is away when a command starts, as long as the user allows."""

from __future__ import annotations

import time

from redis_counters import Counters
from redis_counters.cli.stop_signals import Stop
from redis_counters.errors import Outcome, Unavailable, with_outcome

PAUSE = 0.25  # seconds between two attempts


def wait_for_redis(counters: Counters, seconds: float | None, *, name: bytes = b"", stop: Stop | None = None) -> None:
    """A counter of that name can be read, or a signal has stopped the waiting.

    Raises: what keeps it from being read: at once, if ``seconds`` is None; Unavailable only when that time is over.
    """
    deadline = time.monotonic() + (seconds or 0.0)
    first: Unavailable | None = None  # later ones may only say that Redis is not asked for a moment
    while not stop:
        try:
            counters.get(name, max_age=0)
        except Unavailable as error:
            first = first or error
            rest = deadline - time.monotonic()
            if rest <= 0:
                raise with_outcome(Unavailable(f"{first}; nothing was counted"), Outcome.NOT_APPLIED) from None
            time.sleep(min(PAUSE, rest))
        else:
            return
