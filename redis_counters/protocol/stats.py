"""The numbers behind the metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stats:
    """Figures of one client since it was made.

    ``accepted``: increments and decrements taken over from the buffer.
    ``flushed``: slot totals acknowledged by Redis. ``flushes``: scripts that brought totals and were answered with OK.
    ``pending``: slots not acknowledged at present. ``slots``: totals held in memory.
    ``snapshots``: counters read from Redis. ``failures``: rounds of flushing that did not go through.
    ``journal_failures``: times that the journal could not be written.
    ``undelivered``: counters with an amount that was lost, because the client was closed without Redis.
    ``uncertain``: times that it could not be known how far an actor got (page "The design"); 0 is the rule.
    ``grown``: times that this client gave a counter more shards by itself.
    """

    accepted: int
    flushed: int
    flushes: int
    pending: int
    slots: int
    snapshots: int
    failures: int
    journal_failures: int
    undelivered: int
    uncertain: int
    grown: int
    last_error: str | None
