"""Bringing what ``count`` has counted to Redis, in short steps, so that a signal is seen and the bar moves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from redis_counters import Counters
from redis_counters.cli import output
from redis_counters.cli.progress import REFRESH, Show, Tally
from redis_counters.cli.stopping import Stop
from redis_counters.errors import CounterError, Unavailable

MAX_PENDING = 1_000_000
_NAMES_SHOWN = 5
# Seconds. An attempt that fails gathers what is pending, which takes a while for a million names: not too often.
_STEP = 1.0
# Seconds for closing the actors and folding their slots: counts are safe already, this only tidies up.
_CLOSE = 30.0


def make_room(counters: Counters, names: int, tally: Tally, stop: Stop, show: Show, patience: float) -> bool:
    """Wait until that many more names may be pending; False if told to stop meanwhile.

    Asked before a block, so that ``incr`` never refuses in the middle of one.
    Raises: Unavailable, if nothing gets across for ``patience`` seconds.
    """
    flushed, deadline = -1, 0.0
    while (stats := counters.stats()).pending + names > MAX_PENDING:
        if stop:
            return False
        if stats.flushed != flushed:
            flushed, deadline = stats.flushed, time.monotonic() + patience
        elif time.monotonic() > deadline:
            _flush(counters, tally, 0.0)
        show(tally, stats.flushed, "waiting for Redis")
        time.sleep(REFRESH / 4)
    return True


def deliver(counters: Counters, tally: Tally, stop: Stop, show: Show, timeout: float) -> None:
    """All that was counted is in Redis, of which Redis has confirmed every name.

    Raises: Unavailable with a summary of what did not get across within ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    while (rest := deadline - time.monotonic()) > _STEP:
        try:
            counters.flush(timeout=_STEP)
            break
        except Unavailable:
            show(tally, counters.stats().flushed, "interrupted, flushing" if stop else "flushing")
    _flush(counters, tally, rest)
    show(tally, counters.stats().flushed, "folding")
    with _told(counters, tally):
        counters.close(timeout=_CLOSE)


def give_up(counters: Counters) -> None:
    """Nothing more is sent, not even when the interpreter ends. Of no effect after `deliver`."""
    with suppress(CounterError):
        counters.close(timeout=0)


def _flush(counters: Counters, tally: Tally, timeout: float) -> None:
    with _told(counters, tally):
        counters.flush(timeout=timeout)


@contextmanager
def _told(counters: Counters, tally: Tally) -> Iterator[None]:
    """An Unavailable from inside tells a human what is missing: this process ends and keeps nothing."""
    try:
        yield
    except Unavailable as error:
        reason = counters.stats().last_error or "Redis takes too long"
        amounts = sorted(error.pending.items(), key=lambda item: (-abs(item[1]), str(item[0])))
        names = [output.printable(name if isinstance(name, bytes) else name.encode()) for name, _ in amounts]
        shown = ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")
        missing = f"{sum(error.pending.values()):,} are not known to be in Redis, {len(names):,} names: {shown}"
        raise Unavailable(f"{reason}; of {tally.position}, {missing}", pending=error.pending) from error
