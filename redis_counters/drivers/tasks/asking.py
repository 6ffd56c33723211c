"""What callers wait for, awaited: questions to Redis, with the client's own retries; reads; `flush`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.pacing import closed, settle_flush
from redis_counters.drivers.process.finalizer import without_traceback
from redis_counters.drivers.redis_py.clients import LEAST_PAUSE, MOST_PAUSE
from redis_counters.drivers.redis_py.errors import lacks_connection, no_connection_left
from redis_counters.errors import CounterError, Outcome, Unavailable, with_outcome
from redis_counters.protocol.wire.answers import all_answered
from redis_counters.protocol.wire.commands import Command
from redis_counters.protocol.wire.values import CounterValue

if TYPE_CHECKING:
    from redis_counters.drivers.tasks.reading import Reading
    from redis_counters.drivers.tasks.runner import TaskRunner

T = TypeVar("T")


async def drive(
    runner: Reading, asks: Generator[list[Command], list[object], T], deadline: Deadline, *, whole: bool
) -> T:
    """Drive a generator of questions; return what it returns. ``whole``: raise the error of an answer that is missing.

    A server of a cluster that is not there is no reason not to ask the others: the generator gets a `NoAnswer`, and the
    breaker does not count it.
    """
    runner.begin_here()
    return await _drive(runner, asks, deadline, whole=whole)


async def _drive(
    runner: Reading, asks: Generator[list[Command], list[object], T], deadline: Deadline, *, whole: bool
) -> T:
    if runner.over:
        raise closed()
    answers: Any = None
    while True:
        try:
            with runner.lock:
                commands = asks.send(answers)
        except StopIteration as stop:
            result: T = stop.value
            return result
        answers = await _ask(runner, commands, deadline)
        if whole:
            all_answered(answers)


async def _ask(runner: Reading, commands: list[Command], deadline: Deadline) -> list[object]:
    runner.breaker.check()
    try:
        answers = await _ask_patiently(runner, commands, deadline)
    except Unavailable as error:
        if not no_connection_left(error) and runner.breaker.failed(error):
            runner.publish()
        raise
    if runner.breaker.succeeded():
        runner.publish()
    return answers


async def _ask_patiently(runner: Reading, commands: list[Command], deadline: Deadline) -> list[object]:
    """Ask; where a server of a cluster had no free connection, give all back, wait a little and ask again."""
    pause = LEAST_PAUSE
    while True:
        answers = await runner.transport.ask_each(commands, deadline)
        if not lacks_connection(answers) or deadline.left() <= pause:
            return answers
        await asyncio.sleep(pause * random.random())
        pause = min(2 * pause, MOST_PAUSE)


async def read(runner: Reading, names: Collection[bytes], max_age: float | None) -> dict[bytes, CounterValue]:
    """Return values by name; from the cache where it is fresh enough, else from Redis in one round trip."""
    runner.begin_here()
    if runner.over:
        raise closed()
    reads = runner.core.reads
    failure: CounterError | None = None
    lease, deadline = runner.lease(), Deadline()
    try:
        with runner.lock:
            plan = reads.claim(names, max_age, None, lease)
        if plan.busy:
            plan = await runner.wait_to_claim(names, max_age, lease, deadline)
        if not plan.missing:
            return plan.values
        values = await _drive(runner, reads.fetch(plan.missing, plan.values), deadline, whole=True)
        if plan.values:
            values |= plan.values
        if plan.busy:  # within another read (of a signal handler): what that one gets is older, and must not be kept
            with runner.lock:
                for name in plan.missing:
                    reads.forget(name)
        return values
    except CounterError as error:
        failure = without_traceback(with_outcome(error, Outcome.NOT_APPLIED))
        raise
    finally:
        lease.over = True
        if lease.names:
            with runner.lock:
                reads.release(lease, failure)
            runner.fetch_over()


async def flush(runner: TaskRunner, limit: float, only: bytes | None) -> None:
    """Flush all that was buffered, and what killed processes left. ``limit``: seconds. Raises Unavailable, Refused."""
    runner.begin_here()
    if runner.over:
        raise closed()
    if runner.recording is not None:
        await runner.recording.seek()
    with runner.lock:
        target = runner.core.begin_flush()
        if target is None:
            return
        if runner.stopped:
            raise closed()
    await runner.work_until(target.reached, monotonic() + limit)
    with runner.lock:
        settle_flush(runner.core, target.reached(), limit, closed=runner.stopped, only=only)
        runner.breaker.succeeded()  # the round may go on with something else
