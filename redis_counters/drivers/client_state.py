"""What both drivers know of a client: its core, how far its end has come, and what a round failed for."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from redis_counters.drivers.breaker import Breaker
from redis_counters.drivers.pacing import kept_if_refused, unforeseen
from redis_counters.drivers.process.finalizer import without_traceback
from redis_counters.drivers.redis_py.errors import translate
from redis_counters.errors import CounterError, Refused, Unavailable
from redis_counters.events import publish
from redis_counters.protocol.core import Core
from redis_counters.protocol.flush.round import Steps


class ClientState(ABC):
    """The core is touched under ``lock``, which is none where there are no threads."""

    lock: AbstractContextManager[Any]
    steps: Steps | None  # of the round that goes on
    rounds: int  # that have ended
    refusal: Refused | None  # what the last round as a whole was refused for
    in_child: Callable[[], object] | None

    def __init__(self, core: Core) -> None:
        self.core = core
        self.breaker = Breaker(core)
        self.always = core.settings.journal_always
        self.refusing = False  # close() was called: nothing more is taken in,
        self.stopped = False  # and by now nothing is sent any more,
        self.over = False  # and what was lost is reported
        self.dropped = False  # nothing refers to it any more, and it was not closed
        self.close_refusal: Refused | None = None  # what close() will be refused for

    def begin_core_in_child(self) -> None:
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

    def round_failed(self, error: Exception) -> CounterError:
        """Count the failure of a round; return it as our error."""
        known = translate(error)
        ours = known or unforeseen(self.core, error)
        with self.lock:
            self.core.failed(kept_if_refused(ours), error)
            if isinstance(known, Unavailable) and known is not error:  # not what Redis answers
                self.breaker.failed(known)
            self.refusal = without_traceback(ours) if isinstance(ours, Refused) else None
        return ours
