"""What all parts of a client know, in either driver: its core, the lock around it, and how far its end has come."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from redis_counters.drivers.breaker import Breaker
from redis_counters.events import publish
from redis_counters.protocol.core import Core


class ClientState:
    """The core is touched under ``lock``, which does nothing where there are no threads."""

    lock: AbstractContextManager[Any]  # the runner makes it, and another one in a child

    def __init__(self, core: Core) -> None:
        self.core = core
        self.breaker = Breaker(core)
        self.refusing = False  # close() was called: nothing more is taken in,
        self.stopped = False  # and by now nothing is sent any more,
        self.over = False  # and what was lost is reported
        self.dropped = False  # nothing refers to it any more, and it was not closed

    def begin_in_child(self) -> None:
        """The child of a fork owns nothing: what is pending is the parent's, which may have been about to close."""
        if not self.over:
            self.refusing = self.stopped = False
        self.core.begin()
        self.breaker = Breaker(self.core)

    def publish(self) -> None:
        """Log what has happened, and call the observer, outside of all locks: it may read counters."""
        with self.lock:
            events = self.core.take_events()
        for event in events:
            publish(event, self.core.observer)
