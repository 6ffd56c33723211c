"""An actor that others have ended, because it was silent: what Redis lacks of it, and whether that is certain.

An error is rather too little than too much: what is unknown counts as applied.
"""

from __future__ import annotations

from redis_counters.protocol.wire.replies import Reply
from redis_counters.protocol.write.actor import Actor
from redis_counters.protocol.write.flushes import Totals
from redis_counters.protocol.write.slot_totals import SlotKind


def rest_of(actor: Actor, reply: Reply, reassert_window: float) -> tuple[Totals, str | None]:
    """Return what a successor has to send, by kind, and why it may be too little; None if it is exact.

    ``reply``: FOLDED, with the number of the flush that was recorded last; or GONE, the record was cleaned up since.
    """
    gone = reply.word == "GONE"
    # GONE: it cannot be known, so all that was sent counts as applied.
    seq = reply.number(0) if not gone else actor.base if actor.unknown is None else actor.seq
    rest, exact = _lacking(actor, seq)
    unproved = gone and actor.last_proved < actor.last_acknowledged + reassert_window
    if unproved:
        _leave_refused(actor, rest)
    plus, minus, shards = rest
    if actor.state.journal_may_be_stale and (gone or actor.state.journal_behind) and (plus or minus):
        return ({}, {}, shards), "it was folded or cleaned up, and its journal may be older than its last flush"
    if gone and actor.state.healing and (plus or minus):  # a late copy may have put it back before
        return ({}, {}, shards), "its record was cleaned up before it had sent again what a fail-over had taken back"
    if gone and actor.unknown is not None and len(actor.unknown):
        return rest, "its record was cleaned up, and its last flush had no answer"
    if unproved:
        return rest, "its record was cleaned up, and a fail-over may have taken back its last flushes"
    if not exact:
        return rest, "it was folded as of a flush that is no longer remembered, or had no answer of its own"
    return rest, None


def _lacking(actor: Actor, seq: int) -> tuple[Totals, bool]:
    """Return, by kind, what the actor did not get across, if it was folded as of ``seq``; and whether that is exact."""
    applied, exact = actor.applied_as_of(seq)
    plus, minus = (
        {key: total - done.get(key, 0) for key, total in table.total.items() if total > done.get(key, 0)}
        for table, done in zip(actor.tables, applied, strict=False)
    )
    return (plus, minus, dict(actor.tables[SlotKind.SHARDS].total)), exact


def _leave_refused(actor: Actor, rest: Totals) -> None:
    """Take from the rest what Redis had before it refused it: it may have that again.

    A fail-over may have taken back that something else was put in the counter's place.
    """
    chunks = actor.sent.values()
    for kind, key in set[tuple[SlotKind, bytes]]().union(*(chunk.refused for chunk in chunks)):
        total, amount = actor.tables[kind].total.get(key, 0), rest[kind].get(key, 0)
        if amount and kind is not SlotKind.SHARDS:
            had = max(chunk.applied(kind).get(key, 0) for chunk in chunks)
            rest[kind][key] = min(amount, total - had)
            if total == had:
                del rest[kind][key]
