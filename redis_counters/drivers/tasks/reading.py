"""What callers ask Redis for, awaited: questions, with the client's own retries, and values, fetched by one for all."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Generator
from typing import Any, TypeVar

from redis_counters.drivers.client_state import ClientState
from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.pacing import closed
from redis_counters.drivers.process.finalizer import without_traceback
from redis_counters.drivers.redis_py.clients import MAX_PAUSE_S, MIN_PAUSE_S
from redis_counters.drivers.redis_py.errors import lacks_connection, no_connection_left
from redis_counters.drivers.tasks.background import AutoResetEvent
from redis_counters.drivers.transport import AwaitedTransport
from redis_counters.errors import CounterError, Outcome, Unavailable, with_outcome
from redis_counters.protocol.read.cache import FetchLease, FetchPlan
from redis_counters.protocol.wire.answers import all_answered
from redis_counters.protocol.wire.commands import Command
from redis_counters.protocol.wire.values import CounterValue

T = TypeVar("T")


class Reading:
    """A caller asks by itself. Of those that read one name at a time, one fetches it, and the others wait for it."""

    def __init__(self, state: ClientState, transport: AwaitedTransport) -> None:
        self.state = state
        self.transport = transport
        self.waiting: list[AutoResetEvent] = []  # of callers that wait until another's fetch is over

    async def ask(
        self, asks: Generator[list[Command], list[object], T], deadline: Deadline, *, whole: bool = False
    ) -> T:
        """Drive a generator of questions; return what it returns. ``whole``: raise the error of a missing answer.

        A server of a cluster that is not there is no reason not to ask the others: the generator gets a `NoAnswer`,
        and the breaker does not count it.
        """
        if self.state.over:
            raise closed()
        answers: Any = None
        while True:
            try:
                with self.state.lock:
                    commands = asks.send(answers)
            except StopIteration as stop:
                result: T = stop.value
                return result
            answers = await self._answers(commands, deadline)
            if whole:
                all_answered(answers)

    async def _answers(self, commands: list[Command], deadline: Deadline) -> list[object]:
        state = self.state
        state.breaker.check()
        try:
            answers = await self._patient_answers(commands, deadline)
        except Unavailable as error:
            if not no_connection_left(error) and state.breaker.failed(error):
                state.publish()
            raise
        if state.breaker.succeeded():
            state.publish()
        return answers

    async def _patient_answers(self, commands: list[Command], deadline: Deadline) -> list[object]:
        """Ask; where a server of a cluster had no free connection, give all back, wait a little and ask again."""
        pause = MIN_PAUSE_S
        while True:
            answers = await self.transport.ask_each(commands, deadline)
            if not lacks_connection(answers) or deadline.left() <= pause:
                return answers
            await asyncio.sleep(pause * random.random())
            pause = min(2 * pause, MAX_PAUSE_S)

    async def read(self, names: Collection[bytes], max_age: float | None) -> dict[bytes, CounterValue]:
        """Return values by name; from the cache where it is fresh enough, else from Redis in one round trip."""
        state, reads, cache = self.state, self.state.core.reads, self.state.core.reads.cache
        if state.over:
            raise closed()
        failure: CounterError | None = None
        lease, deadline = FetchLease(asyncio.current_task()), Deadline()
        try:
            with state.lock:
                plan = cache.claim(names, max_age, None, lease)
            if plan.busy:
                plan = await self._wait_to_claim(names, max_age, lease, deadline)
            if not plan.missing:
                return plan.values
            values = await self.ask(reads.fetch(plan.missing, plan.values), deadline, whole=True)
            if plan.values:
                values |= plan.values
            if plan.busy:  # within another read (of a signal handler): what that one gets is older, and is not kept
                with state.lock:
                    for name in plan.missing:
                        cache.forget(name)
            return values
        except CounterError as error:
            failure = without_traceback(with_outcome(error, Outcome.NOT_APPLIED))
            raise
        finally:
            lease.over = True
            if lease.names:
                with state.lock:
                    cache.release(lease, failure)
                for event in tuple(self.waiting):
                    event.set()

    async def _wait_to_claim(
        self, names: Collection[bytes], max_age: float | None, lease: FetchLease, deadline: Deadline
    ) -> FetchPlan:
        """Return a plan as soon as nothing else fetches what it lacks. Raises what the fetch did.

        A signal handler, or an observer, may read within a read of its own thread, and would wait for itself for ever:
        the plan is still ``busy`` then.
        """
        cache, since, event = self.state.core.reads.cache, self.state.core.clock(), AutoResetEvent()
        try:
            self.waiting.append(event)
            while True:
                with self.state.lock:
                    failure = cache.failure(names, since)
                    if failure is not None:
                        raise without_traceback(failure)
                    plan = cache.claim(names, max_age, since, lease)
                    waits_for_itself = any(cache.fetched_by(name, lease.reader) for name in plan.missing)
                if not plan.busy or waits_for_itself:
                    return plan
                if not deadline.left():
                    raise Unavailable(f"Redis is not reachable: {deadline.words}")
                await event.wait(min(1.0, deadline.left()))
        finally:
            if event in self.waiting:
                self.waiting.remove(event)
