"""Orphans: journals of processes that are gone. A writer of their own sends them to Redis; then they end.

An actor out of a journal is what it was when it was recorded last: it asks for its record first (reopening), and sends
what is not acknowledged. It need not send the rest: a registry whose number is not below its base has that too, and
one whose number is below makes it send everything again, as in life.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from redis_counters.errors import SchemaMismatch
from redis_counters.protocol.journal.changes import Stored, StoredActor
from redis_counters.protocol.journal.recorder import Recorder, Seen
from redis_counters.protocol.wire.keys import KeySpace, name_of, shard_of
from redis_counters.protocol.wire.settings import Settings
from redis_counters.protocol.write.actor import Actor
from redis_counters.protocol.write.buffer import Buffer
from redis_counters.protocol.write.flushes import Chunk
from redis_counters.protocol.write.slot_totals import SlotKind
from redis_counters.protocol.write.states import ActorEvent, ActorState, Phase
from redis_counters.protocol.write.writer import Writer


@dataclass(eq=False)
class Orphan:
    """A journal that was taken over. ``shown``: its name for people."""

    stored: Stored
    shown: str
    recorder: Recorder | None = None  # of the writer that has all of it, once there is one
    given_up: bool = False

    @property
    def writer(self) -> Writer | None:
        """Return what sends all of it."""
        return None if self.recorder is None else self.recorder.writer

    @property
    def sent(self) -> bool:
        """True if Redis has all of it, but for what it refuses; or if it cannot be sent."""
        writer = self.writer
        if writer is None:
            return self.given_up
        asks = any(actor.state.probe_due or actor.state.phase is Phase.REOPEN for actor in writer.router.actors())
        return writer.clean and writer.durable and not asks

    def look(self, now: float, *, closing: bool) -> None:
        """Its actors end as in life: each when its totals were kept for the re-assert window, or all if ``closing``."""
        writer = self.writer
        assert writer is not None
        writer.closing = closing
        writer.looks.used_at = now  # there are rounds all the time until it is over
        for bucket in () if closing else writer.router.buckets:
            if bucket.current.state.phase is not Phase.NEW and bucket.current.delivered:
                # Nothing more is counted here: the bucket keeps house of those before its current one.
                bucket.begin(now)

    @property
    def over(self) -> bool:
        """True if it is sent, and its actors have come to their end; or if it cannot be sent."""
        return self.given_up or (self.writer is not None and self.writer.closed)

    @property
    def empty(self) -> bool:
        """True if all of it is sent, and Redis refused none: the journal is of no use any more."""
        return self.writer is not None and self.writer.closed and not self.writer.outstanding.refusals()


def revive(stored: Stored, settings: Settings, keys: KeySpace, mint: Callable[[], str], now: float) -> Recorder:
    """Return the recorder of a writer that holds all of a journal. It goes on where the journal stands.

    Raises SchemaMismatch if the keys are others by now.
    """
    if stored.buckets not in (None, keys.buckets):
        raise SchemaMismatch(
            f"it counted in {stored.buckets} buckets, and namespace {keys.namespace.decode()!r} "
            f"was made anew with {keys.buckets}"
        )
    settings = settings._replace(journal=settings.journal or "journal", journal_always=stored.always)
    writer = Writer(settings, Buffer(), mint)
    for name, at in stored.expiries.items():
        writer.router.expiries.ask(name, at)
    writer.router.expiries.take_changes()
    writer.settle(keys, now)
    seen: dict[Actor, Seen] = {}
    numbers: dict[Actor, int] = {}
    for number, kept in stored.actors.items():
        bucket = writer.router.buckets[kept.head.bucket]
        actor = _actor(
            kept,
            Actor(bucket.number, bucket.registry, mint, settings.display, settings.delay, now, writer.router.expiries),
            may_be_stale=not stored.always,
        )
        bucket.actors.insert(-1, actor)  # never the current one: it gets nothing more
        flushes = list(actor.sent)
        first, last = (flushes[0], flushes[-1]) if flushes else (actor.seq + 1, actor.seq)
        seen[actor] = Seen(kept.head, first, last, 0)
        numbers[actor] = number
    recorder = Recorder(writer, strict=stored.always)
    recorder.resume(seen, numbers, early=bool(stored.early), buckets=stored.buckets)
    for actor in seen:
        _gate(writer, actor)
    for (kind, name), amount in stored.early.items():
        writer.accumulator.buffer.amounts.append((name, amount if kind is SlotKind.PLUS else -amount))
    writer.accumulator.buffer.amounts += stored.calls.values()
    writer.accumulator.drain()
    writer.calls = max(stored.calls, default=0)
    if stored.early or stored.calls:
        writer.router.mark_moved()
    return recorder


def _actor(kept: StoredActor, actor: Actor, *, may_be_stale: bool) -> Actor:
    """The actor is what it was."""
    head = kept.head
    actor.owner, actor.id, actor.seq, actor.base = head.owner, head.id, head.seq, head.base
    actor.state = ActorState(
        healing=head.healing,
        requires_exact_base=head.requires_exact_base,
        base_inexact=head.base_inexact,
        journal_may_be_stale=may_be_stale,
        journal_behind=head.behind,
    )
    applied: tuple[dict[bytes, int], dict[bytes, int]] = ({}, {})
    for table in actor.tables:
        table.changed = {}
    for (kind, key), slot in kept.slots.items():
        table = actor.tables[kind]
        actor.sharded = actor.sharded or shard_of(key) > 0
        table.total[key] = slot.total
        if slot.acknowledged:
            table.acknowledged[key] = slot.acknowledged
        if slot.total != slot.acknowledged:
            table.dirty[key] = None
        if slot.applied and kind is not SlotKind.SHARDS:
            applied[kind][key] = slot.applied
    actor.known_applied = applied if head.healing else None
    for seq in sorted(kept.flushes):
        base, totals = kept.flushes[seq]
        actor.sent.remember(Chunk(seq, base, totals, None))
    actor.maybe_refused = frozenset(
        (kind, key)
        for seq, (_, totals) in kept.flushes.items()
        if seq <= head.base and not head.healing
        for kind in (SlotKind.PLUS, SlotKind.MINUS)
        for key, total in totals[kind].items()
        if total > actor.tables[kind].acknowledged.get(key, 0)
    )
    latest = next(reversed(actor.sent), 0)
    if head.unanswered and latest > head.base:
        actor.unknown = actor.sent[latest]  # it carries all that had no answer
    if head.folding and head.id:  # a part may be in the bases already: never send it again, go on with the folding
        actor.begin_folding(ActorEvent.REVIVED_IN_FOLD)
    elif head.id:  # (else it has never sent anything)
        actor.state.on(ActorEvent.REVIVED)
    return actor


def _gate(writer: Writer, actor: Actor) -> None:
    """Slots in other shards than 0 wait until their number is published (again: it may not have been)."""
    assert writer.router.publication is not None
    for table in actor.tables[:2]:
        for key in list(table.dirty):
            shard = shard_of(key)
            if shard:
                del table.dirty[key]  # else it counts as let through
                if not writer.router.publication.publish_or_wait(name_of(key), shard + 1, actor.bucket, key):
                    table.dirty[key] = None
