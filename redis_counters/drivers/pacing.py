"""How both drivers pace themselves, and what they say when it is not enough."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from redis_counters.errors import BufferFull, CounterError, Overflow, Refused, Unavailable, UsageError
from redis_counters.protocol.core import Core
from redis_counters.protocol.values import Name

if TYPE_CHECKING:
    from tenacity import RetryCallState

log = logging.getLogger("redis_counters")

IDLE_POLL = 1.0  # seconds between looks at the buffer while nothing goes on
FLUSH_TIMEOUT = 30.0  # seconds that flush() tries where the caller sets no limit
MOST_PAUSE = 2.0  # seconds between attempts while Redis is away
IMPATIENCE = 0.05  # seconds between attempts, at least, while somebody waits for a flush
REST = 0.2  # seconds that close() gives the background to end after it is told to


def retry_options(core: Core) -> dict[str, Any]:
    """Return tenacity's options: again and again, after a random pause out of a range that doubles."""
    from tenacity import retry_if_exception_type, stop_never, wait_random_exponential  # a tenth of the import's time

    return {
        "retry": retry_if_exception_type(CounterError),
        "wait": wait_random_exponential(multiplier=core.settings.flush_interval, min=0.01, max=MOST_PAUSE),
        "stop": stop_never,
        "before_sleep": _note_failure,
    }


def _note_failure(state: RetryCallState) -> None:
    if state.attempt_number == 1 and state.outcome is not None:
        log.warning("flush failed, trying again: %s", state.outcome.exception())


def round_error(core: Core) -> CounterError | None:
    """Return what the last round as a whole failed for; what Redis refused of single counters is logged."""
    for error in core.writer.errors:
        if getattr(error, "counter", None) is None:
            return error
        log.error("refused by Redis, kept: %s", error)
    return None


def settle_flush(core: Core, reached: bool, limit: float) -> None:
    """Raise what flush() has to raise after its time, or nothing."""
    if not reached:
        raise unavailable(core, f"not all was applied within {limit:g} s")
    refusals = core.writer.refusals()
    if refusals:
        first = refusals[0]
        if isinstance(first, Overflow) and first.counter is not None:
            del core.writer.overflowed[first.counter]  # told, and not kept: the next flush tells of the next one
        raise first


def settle_close(core: Core, limit: float, refusal: Refused | None) -> None:
    """Raise what close() has to raise after its time, or nothing; what is lost is logged, a line per counter."""
    refusals = core.writer.refusals()
    if not core.writer.clean:
        error = unavailable(core, f"closed before all was applied, after {limit:g} s", kept="not sent any more")
        for name, amount in error.pending.items():
            log.error("counter %r: %d not applied when closed", name, amount)
        raise refusal or error
    for each in refusals:
        log.error("not applied when closed: %s", each)
    if refusals:
        raise refusals[0]


def unavailable(core: Core, what: str, kept: str = "kept, and sent again without counting twice") -> Unavailable:
    reason = f": {core.last_error}" if core.last_error else ""
    return Unavailable(f"{what}{reason}; {kept}", pending=core.writer.pending())


def buffer_full(core: Core, name: Name) -> BufferFull:
    return BufferFull(
        f"{core.settings.max_pending} names wait for Redis already (max_pending); counter {name!r} was not counted"
    )


def closed(name: Name | None = None) -> UsageError:
    return UsageError("this client is closed" + ("" if name is None else f"; counter {name!r} was not counted"))
