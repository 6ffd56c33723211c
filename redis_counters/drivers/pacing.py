"""How both drivers pace themselves, and what they say when it is not enough."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from redis_counters.errors import (
    BufferFull,
    CounterError,
    Outcome,
    Overflow,
    Refused,
    Unavailable,
    Unconfirmed,
    UsageError,
    quoted,
    with_outcome,
)
from redis_counters.events import EventKind, log
from redis_counters.protocol.core import Core
from redis_counters.protocol.wire.answers import all_answered
from redis_counters.protocol.wire.commands import Command
from redis_counters.protocol.wire.values import Name, name_shown

R = TypeVar("R")

IDLE_POLL_S = 1.0  # between looks at the buffer while nothing goes on
FLUSH_TIMEOUT_S = 30.0  # that flush() tries where the caller sets no limit
MAX_PAUSE_S = 2.0  # between attempts while Redis is away
MIN_RETRY_S = 0.05  # between attempts, at least, while a caller waits for a flush
LATE_LOOKS = 4  # that close() takes at whether another thread has counted late,
LATE_LOOK_S = 0.005  # and that each of them waits
CLUSTER_ATTEMPTS = 5  # of a question to a cluster, while what is wrong may pass,
CLUSTER_ATTEMPTS_S = 2.0  # and for how long
END_TIMEOUT_S = 0.2  # that close() gives the background to end after it is told to


def retry_options(core: Core) -> dict[str, Any]:
    """Return tenacity's options: again and again, after a random pause out of a range that doubles."""
    from tenacity import retry_if_exception_type, stop_never, wait_random_exponential  # a tenth of the import's time

    return {
        "retry": retry_if_exception_type(CounterError),
        "wait": wait_random_exponential(multiplier=core.settings.flush_interval, min=0.01, max=MAX_PAUSE_S),
        "stop": stop_never,
    }


def again_options() -> dict[str, Any]:
    """Return tenacity's options for a question to a cluster that may know itself better in a moment."""
    from tenacity import retry_if_exception_type, stop_after_attempt, stop_after_delay, wait_random_exponential

    return {
        "retry": retry_if_exception_type(Unavailable),
        "wait": wait_random_exponential(multiplier=0.02, max=0.5),
        "stop": stop_after_attempt(CLUSTER_ATTEMPTS) | stop_after_delay(CLUSTER_ATTEMPTS_S),
        "reraise": True,
    }


def round_error(core: Core) -> CounterError | None:
    """Return what the last round as a whole failed for; what Redis refused of single counters is reported."""
    for error in core.writer.errors:
        counter = getattr(error, "counter", None)
        if counter is None:
            return error
        core.report(
            EventKind.REFUSED, f"{error}; what it counted is kept, and other counters go on", name_shown(counter)
        )
    return None


def kept_if_refused(error: CounterError) -> CounterError:
    """Return what a round failed for. Of what Redis refuses nothing is lost: it is sent again, as all that waits."""
    if isinstance(error, Refused) and error.outcome is Outcome.NOT_APPLIED:
        error.outcome = Outcome.KEPT
    return error


def unforeseen(core: Core, error: Exception) -> Unavailable:
    """Return our error for what nobody thought of: a fault of ours, of redis-py, of memory; where, is in the log."""
    told = f"an error that is not Redis's: {error!r}"
    if told != core.last_error:
        log.error("flushing failed unexpectedly, going on", exc_info=error)
    return Unavailable(told)


def all_of(asks: Generator[list[Command], list[object], R]) -> Generator[list[Command], list[object], R]:
    """A generator of questions that is over when there is no answer to one of them. Raises its error then."""
    answers: Any = None
    while True:
        try:
            commands = asks.send(answers)
        except StopIteration as stop:
            result: R = stop.value
            return result
        answers = all_answered((yield commands))


def check_flushed(core: Core, reached: bool, limit: float, *, closed: bool, only: bytes | None) -> None:
    """Raise what flush() has to raise after its time, or when the client was closed meanwhile, or nothing.

    ``only``: what is refused of other counters is reported by the next flush.
    """
    if not reached and closed:
        raise unavailable(core, "the client was closed before all was applied", over=True)
    if not reached:
        raise unavailable(core, f"not all was applied within {round(limit, 2):g} s", over=False)
    refusals = [each for each in core.writer.outstanding.refusals() if only is None or each.counter in (None, only)]
    if refusals:
        first = refusals[0]
        if isinstance(first, Overflow) and first.counter is not None:
            del core.writer.router.overflowed[first.counter]  # told, and not kept: the next flush tells of the next one
            raise first
        raise with_outcome(first, Outcome.KEPT)


def check_closed(core: Core, limit: float, refusal: Refused | None) -> None:
    """Raise what close() has to raise after its time, or nothing; what is lost is logged, a line per counter."""
    core.housekeeping.abandoned()  # what its janitor has done so far is told
    refusals = core.writer.outstanding.refusals()
    if not core.writer.clean and core.writer.outstanding.waiting():  # else only a question had no answer
        error = unavailable(core, f"closed before all was applied, after {round(limit, 2):g} s", over=True)
        not_delivered(core, "when closed")
        raise error if refusal is None else with_outcome(refusal, error.outcome)
    if not core.writer.durable:
        why = core.writer.confirmation.shortfall or core.last_error
        raise refusal or Unconfirmed(f"closed before all was confirmed, after {round(limit, 2):g} s: {why}")
    for each in refusals:
        counter = None if each.counter is None else name_shown(each.counter)
        core.report(EventKind.NOT_DELIVERED, f"not in Redis when closed: {each}", counter)
    if refusals:
        kept = core.left_in_journal and not isinstance(refusals[0], Overflow)
        raise with_outcome(refusals[0], Outcome.KEPT if kept else Outcome.NOT_APPLIED)


def not_delivered(core: Core, when: str) -> None:
    """What is lost is reported, counter by counter; what the journal has is not lost."""
    if core.left_in_journal:
        return
    for name, amount in core.writer.outstanding.pending().items():
        core.undelivered += 1
        core.report(
            EventKind.NOT_DELIVERED, f"counter {quoted(name)}: {amount} not known to be in Redis {when}", name, amount
        )


def unavailable(core: Core, what: str, *, over: bool) -> Unavailable:
    """Return the error, caused by what the last round failed for, or else by the time that has passed.

    ``over``: the client is closed, and sends nothing any more.
    """
    reason = f": {core.last_error}" if core.last_error else ""
    if not over:
        outcome, then = Outcome.KEPT, "kept, and sent again without counting twice"
    elif core.left_in_journal:
        outcome, then = Outcome.KEPT, "kept in the journal, for the next client with it"
    else:
        outcome, then = Outcome.UNKNOWN, "not sent any more"
    pending = core.writer.outstanding.pending()
    if pending or core.writer.confirmation.shortfall is None:
        error = with_outcome(Unavailable(f"{what}{reason}; {then}", pending=pending), outcome)
    else:
        error = Unconfirmed(f"{what}{reason}")
    error.__cause__ = core.cause or TimeoutError("Redis has not answered yet")
    return error


def buffer_full(core: Core, name: Name) -> BufferFull:
    return BufferFull(
        f"{core.settings.max_pending} names wait for Redis already (max_pending); counter {quoted(name)} was not "
        "counted"
    )


def closed(name: Name | None = None) -> UsageError:
    return UsageError("this client is closed" + ("" if name is None else f"; counter {quoted(name)} was not counted"))
