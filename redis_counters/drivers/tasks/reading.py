"""Reads of the asyncio driver: a caller asks Redis, one at a time for a name; the others wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Generator
from typing import TypeVar

from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.process.finalizer import without_traceback
from redis_counters.drivers.tasks.asking import drive, read
from redis_counters.drivers.tasks.flusher import Flusher
from redis_counters.drivers.tasks.rounds import set_within
from redis_counters.errors import Unavailable
from redis_counters.protocol.read.cache import FetchLease, FetchPlan
from redis_counters.protocol.wire.commands import Command
from redis_counters.protocol.wire.values import CounterValue

T = TypeVar("T")


class Reading(Flusher):
    """What readers do."""

    async def ask(self, asks: Generator[list[Command], list[object], T], deadline: Deadline | None = None) -> T:
        return await drive(self, asks, deadline or Deadline(), whole=False)

    async def read(self, names: Collection[bytes], max_age: float | None) -> dict[bytes, CounterValue]:
        return await read(self, names, max_age)

    def lease(self) -> FetchLease:
        return FetchLease()

    def fetch_over(self) -> None:
        self.fetched.set()
        self.fetched = asyncio.Event()

    async def wait_to_claim(
        self, names: Collection[bytes], max_age: float | None, lease: FetchLease, deadline: Deadline
    ) -> FetchPlan:
        """Return a plan as soon as no other task fetches what it lacks. Raises what the fetch did."""
        reads, since = self.core.reads, self.core.clock()
        while True:
            if not await set_within(self.fetched, deadline.left()):
                raise Unavailable(f"Redis is not reachable: {deadline.words}")
            failure = reads.failure(names, since)
            if failure is not None:
                raise without_traceback(failure)
            claim = reads.claim(names, max_age, since, lease)
            if not claim.busy:
                return claim
