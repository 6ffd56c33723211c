"""Reads of the asyncio driver: a caller asks Redis, one at a time for a name; the others wait for it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Generator
from typing import Any, TypeVar

from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.pacing import all_of, closed
from redis_counters.drivers.process.finalizer import without_traceback
from redis_counters.drivers.redis_py.clients import LEAST_PAUSE, MOST_PAUSE
from redis_counters.drivers.redis_py.errors import lacks_connection, no_connection_left
from redis_counters.drivers.tasks.flusher import Flusher
from redis_counters.drivers.tasks.rounds import set_within
from redis_counters.errors import CounterError, Outcome, Unavailable, with_outcome
from redis_counters.protocol.read.cache import FetchLease, FetchPlan
from redis_counters.protocol.wire.commands import Command
from redis_counters.protocol.wire.values import CounterValue

T = TypeVar("T")


class Reading(Flusher):
    """What readers do."""

    async def ask(self, asks: Generator[list[Command], list[object], T], deadline: Deadline | None = None) -> T:
        """Drive a generator of questions, with the client's own retries.

        A server of a cluster that is not there is no reason not to ask the others: the generator is told of it
        (`NoAnswer`), and the breaker does not count it.
        """
        self._here()
        if self.over:
            raise closed()
        deadline = deadline or Deadline()
        answers: Any = None
        while True:
            try:
                commands = asks.send(answers)
            except StopIteration as stop:
                result: T = stop.value
                return result
            answers = await self._ask(commands, deadline)

    async def _ask(self, commands: list[Command], deadline: Deadline) -> list[object]:
        self.breaker.check()
        try:
            answers = await self._ask_patiently(commands, deadline)
        except Unavailable as error:
            if not no_connection_left(error) and self.breaker.failed(error):
                self.publish()
            raise
        if self.breaker.succeeded():
            self.publish()
        return answers

    async def _ask_patiently(self, commands: list[Command], deadline: Deadline) -> list[object]:
        """As the transport; over several servers nobody waits for a connection to one who has one to another."""
        pause = LEAST_PAUSE
        while True:
            answers = await self.transport.ask_each(commands, deadline)
            if not lacks_connection(answers) or deadline.left() <= pause:
                return answers
            await asyncio.sleep(pause * random.random())
            pause = min(2 * pause, MOST_PAUSE)

    async def read(self, names: Collection[bytes], max_age: float | None) -> dict[bytes, CounterValue]:
        """Return values by name; from the cache where it is fresh enough, else from Redis in one round trip."""
        self._here()
        if self.over:
            raise closed()
        reads = self.core.reads
        failure: CounterError | None = None
        ticket = FetchLease()
        deadline = Deadline()
        try:
            claim = reads.claim(names, max_age, None, ticket)
            if claim.busy:
                claim = await self._wait_to_claim(names, max_age, ticket, deadline)
            if not claim.missing:
                return claim.values
            return claim.values | await self.ask(all_of(reads.fetch(claim.missing, claim.values)), deadline)
        except CounterError as error:
            failure = without_traceback(with_outcome(error, Outcome.NOT_APPLIED))
            raise
        finally:
            ticket.over = True
            if ticket.names:
                reads.release(ticket, failure)
                self.fetched.set()
                self.fetched = asyncio.Event()

    async def _wait_to_claim(
        self, names: Collection[bytes], max_age: float | None, ticket: FetchLease, deadline: Deadline
    ) -> FetchPlan:
        """Return a claim as soon as nobody else fetches what it lacks. Raises what the fetch did."""
        reads, since = self.core.reads, self.core.clock()
        while True:
            if not await set_within(self.fetched, deadline.left()):
                raise Unavailable(f"Redis is not reachable: {deadline.words}")
            failure = reads.failure(names, since)
            if failure is not None:
                raise without_traceback(failure)
            claim = reads.claim(names, max_age, since, ticket)
            if not claim.busy:
                return claim
