"""The circuit breaker: while Redis is not reached again and again, reads fail at once, and do not wait one by one.

Flushing has a pace of its own, and goes on: its first success closes the breaker.
"""

from __future__ import annotations

from contextlib import suppress

from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.process.finalizer import without_traceback
from redis_counters.errors import Unavailable
from redis_counters.events import EventKind
from redis_counters.protocol.core import Core

FAILURES = 5  # in a row open it
OPEN_S = 2  # until a read may try again


class Breaker:
    """The circuit breaker of one client; reads and flushes say how they went."""

    def __init__(self, core: Core) -> None:
        from circuitbreaker import CircuitBreaker

        self.core = core
        self.circuit = CircuitBreaker(FAILURES, OPEN_S, Unavailable)
        self.until = 0.0  # then a read may try again; its own clock may stand still in tests
        self.failing = False  # the last that was heard of Redis was a failure
        self.reported = False  # that it is open

    def check(self) -> None:
        """Raises Unavailable while it is open."""
        if self.failing and self._open and monotonic() < self.until:
            raise Unavailable(
                f"Redis has failed {self.circuit.failure_count} times in a row and is not asked for {OPEN_S:g} s "
                f"(only get with max_age=float('inf') answers, by what is known): {self.circuit.last_failure}"
            )

    def failed(self, error: Unavailable) -> bool:
        """Redis did not answer, or not usefully. Returns whether that opened the breaker."""
        self.failing = True
        kept = without_traceback(error)
        with suppress(Unavailable), self.circuit:  # where the exception passes, it is counted
            raise kept
        kept.__traceback__ = kept.__context__ = None
        self.until = monotonic() + OPEN_S
        if not self._open or self.reported:
            return False
        self.reported = True
        self.core.report(
            EventKind.BREAKER_OPENED, f"{error}; it is asked only every {OPEN_S:g} s, reads fail at once meanwhile"
        )
        return True

    @property
    def _open(self) -> bool:
        return bool(self.circuit.failure_count >= FAILURES)

    def succeeded(self) -> bool:
        """Redis answered. Returns whether that closed the breaker."""
        if not self.failing:
            return False
        self.failing = False
        self.circuit.reset()
        if not self.reported:
            return False
        self.reported = False
        self.core.report(EventKind.BREAKER_CLOSED, "Redis answers again")
        return True
