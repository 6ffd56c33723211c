"""Reads of the asyncio driver: a caller asks Redis, one at a time for a name; the others wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Generator
from typing import Any, TypeVar

from redis_counters.drivers.dropped import bare
from redis_counters.drivers.pacing import all_of
from redis_counters.drivers.redis_py.errors import no_connection_left
from redis_counters.drivers.tasks.flusher import Flusher
from redis_counters.errors import CounterError, Outcome, Unavailable, with_outcome
from redis_counters.protocol.cached_reads import Claim, Ticket
from redis_counters.protocol.commands import Command, NoAnswer
from redis_counters.protocol.values import CounterValue

T = TypeVar("T")


class Reading(Flusher):
    """What readers do."""

    async def ask(self, asks: Generator[list[Command], list[object], T]) -> T:
        """Drive a generator of questions, with the client's own retries.

        A server of a cluster that is not there is no reason not to ask the others: the generator is told of it
        (`NoAnswer`), and the breaker does not count it.
        """
        self._here()
        answers: Any = None
        while True:
            try:
                commands = asks.send(answers)
            except StopIteration as stop:
                result: T = stop.value
                return result
            answers = await self._ask(commands)

    async def _ask(self, commands: list[Command]) -> list[object]:
        self.breaker.check()
        try:
            answers = await self._ask_patiently(commands)
        except Unavailable as error:
            if self.breaker.failed(error):
                self.publish()
            raise
        if self.breaker.succeeded():
            self.publish()
        return answers

    async def _ask_patiently(self, commands: list[Command]) -> list[object]:
        try:
            answers = await self.transport.ask_each(commands)
            if not any(isinstance(answer, NoAnswer) and no_connection_left(answer.error) for answer in answers):
                return answers
        except Unavailable as error:
            if not no_connection_left(error):
                raise
        async with self.rounding:  # a round may have the only connection; between rounds it is free
            return await self.transport.ask_each(commands)

    async def read(self, names: Collection[bytes], max_age: float | None) -> dict[bytes, CounterValue]:
        """Return values by name; from the cache where it is fresh enough, else from Redis in one round trip."""
        self._here()
        reads = self.core.reads
        failure: CounterError | None = None
        ticket = Ticket()
        try:
            claim = reads.claim(names, max_age, None, ticket)
            if claim.busy:
                claim = await self._wait_to_claim(names, max_age, ticket)
            if not claim.missing:
                return claim.values
            return claim.values | await self.ask(all_of(reads.fetch(claim.missing, claim.values)))
        except CounterError as error:
            failure = bare(with_outcome(error, Outcome.NOT_APPLIED))
            raise
        finally:
            ticket.over = True
            if ticket.names:
                reads.release(ticket, failure)
                self.fetched.set()
                self.fetched = asyncio.Event()

    async def _wait_to_claim(self, names: Collection[bytes], max_age: float | None, ticket: Ticket) -> Claim:
        """Return a claim as soon as nobody else fetches what it lacks. Raises what the fetch did."""
        reads, since = self.core.reads, self.core.clock()
        while True:
            await self.fetched.wait()
            failure = reads.failure(names, since)
            if failure is not None:
                raise bare(failure)
            claim = reads.claim(names, max_age, since, ticket)
            if not claim.busy:
                return claim
