"""Reads of the blocking driver: a caller's thread asks Redis, one at a time for a name; the others wait for it."""

from __future__ import annotations

import threading
from collections.abc import Collection, Generator
from typing import TypeVar

from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.process.finalizer import without_traceback
from redis_counters.drivers.threads.asking import drive, read
from redis_counters.drivers.threads.background import AutoResetEvent
from redis_counters.drivers.threads.flusher import Flusher
from redis_counters.errors import Unavailable
from redis_counters.protocol.read.cache import FetchLease, FetchPlan
from redis_counters.protocol.wire.commands import Command
from redis_counters.protocol.wire.values import CounterValue

T = TypeVar("T")


class _OwnLease(FetchLease):
    """A lease that knows its thread."""

    __slots__ = ("thread",)

    def __init__(self) -> None:
        super().__init__()
        self.thread = threading.get_ident()


def _fetches_already(lease: FetchLease | None) -> bool:
    """True if this very thread does: a signal handler, or an observer, reads within its read."""
    return isinstance(lease, _OwnLease) and not lease.over and lease.thread == threading.get_ident()


class Reading(Flusher):
    """What readers do."""

    def ask(self, asks: Generator[list[Command], list[object], T], deadline: Deadline | None = None) -> T:
        return drive(self, asks, deadline or Deadline(), whole=False)

    def read(self, names: Collection[bytes], max_age: float | None) -> dict[bytes, CounterValue]:
        if self.background.absent and not self.over:
            self.begin_here()
            self._flush_inline_if_due()
        return read(self, names, max_age)

    def lease(self) -> FetchLease:
        return _OwnLease()

    def fetch_over(self) -> None:
        for bell in tuple(self.readers):
            bell.ring()

    def wait_to_claim(
        self, names: Collection[bytes], max_age: float | None, lease: FetchLease, deadline: Deadline
    ) -> FetchPlan:
        """Return a plan as soon as no other thread fetches what it lacks. Raises what the fetch did.

        Where this thread itself is the one that fetches, it would wait for ever: the plan is still ``busy`` then.
        """
        reads, since, bell = self.core.reads, self.core.clock(), AutoResetEvent()
        try:
            self.readers.append(bell)
            while True:
                with self.lock:
                    failure = reads.failure(names, since)
                    if failure is not None:
                        raise without_traceback(failure)
                    claim = reads.claim(names, max_age, since, lease)
                    waits_for_itself = any(_fetches_already(reads.fetching.get(name)) for name in claim.missing)
                if not claim.busy or waits_for_itself:
                    return claim
                if not deadline.left():
                    raise Unavailable(f"Redis is not reachable: {deadline.words}")
                bell.wait(min(1.0, deadline.left()))
        finally:
            if bell in self.readers:
                self.readers.remove(bell)
