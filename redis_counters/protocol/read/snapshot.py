"""A snapshot: what Redis held of a counter at one time, and which of it was this process's own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from redis_counters.crdt.shard_copies import Copies
from redis_counters.crdt.shard_fields import scan
from redis_counters.protocol.wire.keys import bucket_of
from redis_counters.protocol.wire.shard_fields import pairs_of
from redis_counters.protocol.wire.values import CounterValue
from redis_counters.protocol.write.actor import Actor
from redis_counters.protocol.write.actor_set import ActorSet
from redis_counters.protocol.write.slot_totals import SlotKind, SlotTotals

Place = tuple[int, bytes]  # a shard's bucket and key
Slot = tuple[bytes, bytes, SlotKind]  # a shard's key, the owner of an actor, increments or decrements
Excess = tuple[bytes, SlotKind]  # a shard's key, increments or decrements


class SeenRecords:
    """Answers of registries during a fetch, of actors whose slots were not as expected, by owner."""

    __slots__ = ("folded", "lost")

    def __init__(self) -> None:
        self.folded: dict[bytes, tuple[dict[bytes, int], dict[bytes, int]]] = {}  # what was applied by then
        self.lost: set[bytes] = set()  # the record is absent or behind: Redis has lost what was acknowledged


Doubts = dict[bytes, tuple[Actor, list[tuple[SlotTotals, bytes]]]]  # by owner: the slots that are absent, or too low

NOTHING: Mapping[Any, int] = {}  # of most snapshots; it is never written to
NOTHING_MOVED: Copies = {}  # the same


class Snapshot:
    """A counter in Redis at one time, complete over its shards."""

    __slots__ = (
        "acknowledged",
        "ahead",
        "as_of",
        "copies",
        "counted",
        "drops",
        "epoch",
        "excess",
        "fresh_until",
        "own",
        "places",
        "taken",
        "value",
    )

    def __init__(self, taken: float, as_of: float, fresh_until: float, drops: int, places: list[Place]) -> None:
        self.taken = taken  # on the clock that ages are measured with
        self.drops = drops  # of own state, until then
        self.as_of = as_of  # epoch seconds
        self.fresh_until = fresh_until
        self.counted = 0
        self.copies: Copies = NOTHING_MOVED  # what its shard 0 holds of others
        self.places = places  # of the shards that were asked for, in order
        self.own: Mapping[Slot, int] = NOTHING  # own slots in it
        self.excess: Mapping[Excess, int] = NOTHING  # what a peer's copy of own slots' shards has beyond them
        self.acknowledged: Mapping[Slot, int] = NOTHING  # what was acknowledged of own slots when it was asked for
        self.value: CounterValue | None = None  # the value last made of it,
        self.epoch = -1  # and the writer's epoch that this was made in
        # That value with what waits in the buffer: in which epoch, how much of the buffer it has, and the value.
        self.ahead: tuple[int, int, CounterValue | None] = (-1, 0, None)

    def take_own(self, actors: Iterable[Actor], key: bytes, raw: object, records: SeenRecords, doubts: Doubts) -> None:
        """It holds what Redis has of own slots in a shard.

        ``doubts`` gets those that are absent though Redis may know of them, or lower than what it acknowledged: they
        were deleted, folded or lost, which only the actor's record says.
        """
        for actor in actors:
            plus, minus, _ = actor.tables
            if not actor.id or (key not in plus.total and key not in minus.total):  # not opened yet: Redis has nothing
                continue
            fields = dict(pairs_of(raw, b""))
            live_plus, live_minus, _, dot, _ = scan(fields.items())
            copy = b"@/" + dot
            for table, sign, live in ((plus, b"+", live_plus), (minus, b"-", live_minus)):
                if key not in table.total:
                    continue
                if copy + sign in fields:
                    self.excess = {**self.excess, (key, table.kind): max(0, int(fields[copy + sign]) - live)}
                slot, place = fields.get(actor.id + sign), (key, actor.owner, table.kind)
                had = self.acknowledged.get(place, 0)
                if slot is not None:
                    self.own = {**self.own, place: int(slot)}
                    doubtful = int(slot) < had
                elif actor.owner in records.folded:
                    applied = records.folded[actor.owner][table.kind]  # not what was acknowledged: that may be lost
                    self.acknowledged = {**self.acknowledged, place: applied.get(key, 0)}
                    continue
                elif actor.owner in records.lost:
                    self.acknowledged = {**self.acknowledged, place: 0}
                    continue
                else:
                    doubtful = actor.highest_sent(table.kind, key) > had or (had > 0 and key not in table.absent)
                if doubtful and actor.owner not in records.lost and actor.owner not in records.folded:
                    slots = doubts.setdefault(actor.owner, (actor, []))[1]
                    if had:  # what Redis got since then may be there by now
                        slots.append((table, key))

    def lacks(self, owner: bytes, table: SlotTotals, key: bytes) -> tuple[int, int]:
        """Return what it lacks of an own slot, and what of the slot is not acknowledged."""
        total = table.total[key]
        slot = self.own.get((key, owner, table.kind))
        if slot is None:  # deleted or folded, as far as it was acknowledged before we looked
            slot = self.acknowledged.get((key, owner, table.kind), 0)
        return max(0, total - slot), total - table.acknowledged.get(key, 0)

    def forget_acknowledged(self, folded: Collection[bytes]) -> None:
        """Own slots that are absent count in full, but for those of actors that were folded."""
        if self.acknowledged:
            self.acknowledged = {place: n for place, n in self.acknowledged.items() if place[1] in folded}

    def twice(self, buckets: list[ActorSet]) -> int:
        """Return how much of what it lacks of own slots a peer had sent already: that is counted in it.

        A fail-over took it back here, and the peer's copy has brought it back before we have sent it again.
        """
        found = 0
        for (key, kind), excess in self.excess.items():
            bucket = bucket_of(key)
            lacking = sum(
                self.lacks(actor.owner, actor.tables[kind], key)[0]
                for actor in buckets[bucket].actors
                if key in actor.tables[kind].total
            )
            found += min(excess, lacking) * (1 if kind is SlotKind.PLUS else -1)
        return found


def acknowledged(buckets: list[ActorSet], places: Iterable[Place]) -> Mapping[Slot, int]:
    """Return what is acknowledged of own slots in these shards, which are about to be asked for."""
    found = {
        (key, actor.owner, table.kind): table.acknowledged[key]
        for bucket, key in places
        for actor in buckets[bucket].actors
        for table in actor.tables[:2]
        if key in table.acknowledged
    }
    return found or NOTHING
