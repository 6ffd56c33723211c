"""Reads of the blocking driver: a caller's thread asks Redis, one at a time for a name; the others wait for it."""

from __future__ import annotations

import threading
from collections.abc import Collection, Generator
from typing import TypeVar

from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.pacing import closed
from redis_counters.drivers.process.finalizer import without_traceback
from redis_counters.drivers.threads.asking import drive
from redis_counters.drivers.threads.background import AutoResetEvent
from redis_counters.drivers.threads.flusher import Flusher
from redis_counters.errors import CounterError, Outcome, Unavailable, with_outcome
from redis_counters.protocol.read.cache import FetchLease, FetchPlan
from redis_counters.protocol.wire.commands import Command
from redis_counters.protocol.wire.values import CounterValue

T = TypeVar("T")


class _OwnTicket(FetchLease):
    """A ticket that tells whose it is."""

    __slots__ = ("thread",)

    def __init__(self) -> None:
        super().__init__()
        self.thread = threading.get_ident()


def _fetches_already(ticket: FetchLease | None) -> bool:
    """True if this very thread does: a signal handler, or an observer, reads within its read."""
    return isinstance(ticket, _OwnTicket) and not ticket.over and ticket.thread == threading.get_ident()


class Reading(Flusher):
    """What readers do."""

    def ask(self, asks: Generator[list[Command], list[object], T], deadline: Deadline | None = None) -> T:
        return drive(self, asks, deadline or Deadline(), whole=False)

    def read(self, names: Collection[bytes], max_age: float | None) -> dict[bytes, CounterValue]:
        """Return values by name; from the cache where it is fresh enough, else from Redis in one round trip."""
        self.begin_here()
        if self.over:
            raise closed()
        reads = self.core.reads
        if self.background.absent:
            self._flush_inline_if_due()
        failure: CounterError | None = None
        ticket = _OwnTicket()
        deadline = Deadline()
        try:
            with self.lock:
                claim = reads.claim(names, max_age, None, ticket)
            if claim.busy:
                claim = self._wait_to_claim(names, max_age, ticket, deadline)
            if not claim.missing:
                return claim.values
            values = drive(self, reads.fetch(claim.missing, claim.values), deadline, whole=True)
            if claim.values:
                values |= claim.values
            if claim.busy:  # what the interrupted read will be told is older, and must not be kept
                with self.lock:
                    for name in claim.missing:
                        reads.forget(name)
            return values
        except CounterError as error:
            failure = without_traceback(with_outcome(error, Outcome.NOT_APPLIED))
            raise
        finally:
            ticket.over = True
            if ticket.names:
                with self.lock:
                    reads.release(ticket, failure)
                for bell in tuple(self.readers):
                    bell.ring()

    def _wait_to_claim(
        self, names: Collection[bytes], max_age: float | None, ticket: FetchLease, deadline: Deadline
    ) -> FetchPlan:
        """Return a claim as soon as nobody else fetches what it lacks. Raises what the fetch did.

        Where this thread itself is the one that fetches, it would wait for ever: the claim is still ``busy`` then.
        """
        reads, since, bell = self.core.reads, self.core.clock(), AutoResetEvent()
        try:
            self.readers.append(bell)
            while True:
                with self.lock:
                    failure = reads.failure(names, since)
                    if failure is not None:
                        raise without_traceback(failure)
                    claim = reads.claim(names, max_age, since, ticket)
                    waits_for_itself = any(_fetches_already(reads.fetching.get(name)) for name in claim.missing)
                if not claim.busy or waits_for_itself:
                    return claim
                if not deadline.left():
                    raise Unavailable(f"Redis is not reachable: {deadline.words}")
                bell.wait(min(1.0, deadline.left()))
        finally:
            if bell in self.readers:
                self.readers.remove(bell)
