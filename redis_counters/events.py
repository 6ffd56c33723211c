"""What happens to a client besides counting: an event has a kind, and goes to the log and to an observer.

Nobody has to look at events for counts to be right. They say what was repaired, and what could not be.

===================  ========  ====================================================================================
kind                 logged    happened
===================  ========  ====================================================================================
flush failed         warning   a flush did not go through; what is buffered is kept, and sent again by itself
flush recovered      info      the first flush after that went through
refused              error     a counter is refused by Redis, or a journal by its namespace; it is kept, others go on
regressed            warning   Redis has lost counts that it had confirmed, as by a fail-over; they are sent again
healed               info      Redis has confirmed again what it had lost
reopened             warning   this process was silent and taken for gone; it goes on as before
moved                warning   the same, for so long that its counts were folded; it goes on as a new actor
uncertain            error     of some counts nobody can tell whether they arrived; they are taken as arrived
shard missing        warning   counts that Redis had confirmed are gone: a key was deleted, expired or evicted
eviction             warning   the server's maxmemory-policy may evict counters
not durable          error     on the primary, but not confirmed as `durability` asks for
breaker opened       warning   Redis fails again and again: reads fail at once for a while
breaker closed       info      a read or a flush went through again
flusher restarted    error     the background was gone, or made no progress; another one, or callers, go on
not delivered        error     an amount is not known to be in Redis, and the client was closed
reaped               info      this client closed actors of processes that were silent for `actor_ttl`
folded               info      this client gathered the counts of such actors; no value changes
cleaned              info      this client removed the records of actors that were folded long ago
shards grown         info      a counter is written to so often that this client gave it more shards
journal failed       error     the journal cannot be written; counting goes on, but would not survive a kill
journal recovered    info      it can be written again
journal taken over   info      the journal of a process that was killed is told to Redis
journal damaged      error     a journal was damaged and is set aside; what is whole in it is told to Redis
exchange failed      warning   one region does not get on to another; it is tried again, others go on
exchange recovered   info      it got through again
region behind        warning   a region had lost counts of its own; its peers have given them back
===================  ========  ====================================================================================
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

Observer = Callable[["Event"], None]
"""Called with each event, in the thread or task that flushes (or in that of a caller): it must not take long."""

__all__ = ["Event", "EventKind", "Observer"]

log = logging.getLogger("redis_counters")


class EventKind(Enum):
    """The kinds of events, each with the level that it is logged with."""

    FLUSH_FAILED = ("flush failed", logging.WARNING)
    FLUSH_RECOVERED = ("flush recovered", logging.INFO)
    REFUSED = ("refused", logging.ERROR)
    REGRESSED = ("regressed", logging.WARNING)
    HEALED = ("healed", logging.INFO)
    REOPENED = ("reopened", logging.WARNING)
    MOVED = ("moved", logging.WARNING)
    UNCERTAIN = ("uncertain", logging.ERROR)
    SHARD_MISSING = ("shard missing", logging.WARNING)
    EVICTION = ("eviction", logging.WARNING)
    NOT_DURABLE = ("not durable", logging.ERROR)
    BREAKER_OPENED = ("breaker opened", logging.WARNING)
    BREAKER_CLOSED = ("breaker closed", logging.INFO)
    FLUSHER_RESTARTED = ("flusher restarted", logging.ERROR)
    NOT_DELIVERED = ("not delivered", logging.ERROR)
    REAPED = ("reaped", logging.INFO)
    FOLDED = ("folded", logging.INFO)
    CLEANED = ("cleaned", logging.INFO)
    SHARDS_GROWN = ("shards grown", logging.INFO)
    JOURNAL_FAILED = ("journal failed", logging.ERROR)
    JOURNAL_RECOVERED = ("journal recovered", logging.INFO)
    JOURNAL_TAKEN_OVER = ("journal taken over", logging.INFO)
    EXCHANGE_FAILED = ("exchange failed", logging.WARNING)
    EXCHANGE_RECOVERED = ("exchange recovered", logging.INFO)
    REGION_BEHIND = ("region behind", logging.WARNING)
    JOURNAL_DAMAGED = ("journal damaged", logging.ERROR)

    @property
    def word(self) -> str:
        """The kind as it is logged."""
        return self.value[0]

    @property
    def level(self) -> int:
        """The level of `logging`."""
        return self.value[1]


class Event(NamedTuple):
    """Something happened; ``counter``, ``actor``, ``bucket`` and ``amount`` say to what, where that applies."""

    kind: EventKind
    message: str
    counter: str | bytes | None = None
    actor: bytes | None = None
    bucket: int | None = None
    amount: int | None = None

    def __str__(self) -> str:
        return f"{self.kind.word}: {self.message}"


def publish(event: Event, observer: Observer | None) -> None:
    """The event is logged, and the observer has seen it; what it raises is logged and goes no further."""
    log.log(event.kind.level, "%s", event)
    if observer is not None:
        try:
            observer(event)
        except Exception:
            log.exception("the observer failed on %r", event.kind.word)
