"""Shards other than 0 are used only after shard 0 says that they exist: readers go by that.

The number of shards is a kind of slot of the actor in shard 0's bucket: it is sent, acknowledged, and sent again
after a fail-over like any total. Until it is acknowledged, what was counted for another shard waits at a gate.
"""

from __future__ import annotations

from collections.abc import Sequence

from redis_counters.protocol.wire.keys import KeySpace, name_of, shard_of
from redis_counters.protocol.write.actor_set import ActorSet
from redis_counters.protocol.write.slot_totals import SlotKind


class ShardPublication:
    """Slots that wait until a number of shards is published."""

    def __init__(self, keys: KeySpace, buckets: Sequence[ActorSet]) -> None:
        self.keys = keys
        self.buckets = buckets
        self.waiting: dict[bytes, set[tuple[int, bytes]]] = {}  # shard 0's key -> (bucket, key) of what waits for it
        self.wanted: dict[bytes, int] = {}  # shard 0's key -> the number of shards that it waits for
        self.again: set[bytes] = set()  # shard 0's keys that must publish again
        self.used = 0  # how often something was made to wait

    def publish(self, name: bytes, shards: int) -> None:
        """Publish that number of shards in shard 0."""
        bucket0, key0 = self.keys.shard_key(name, 0)
        table0 = self.buckets[bucket0].tables[SlotKind.SHARDS]
        if table0.total.get(key0, 0) < shards or key0 in table0.refused:
            table0.raise_to(key0, shards)

    def publish_or_wait(self, name: bytes, shards: int, bucket: int, key: bytes) -> bool:
        """The shard may be used now, or its slots wait until it may be. True if they wait."""
        for actor in self.buckets[bucket].actors:
            actor.sharded = True
        bucket0, key0 = self.keys.shard_key(name, 0)
        table0 = self.buckets[bucket0].tables[SlotKind.SHARDS]
        if table0.acknowledged.get(key0, 0) >= shards:
            return False
        self.publish(name, shards)
        self.waiting.setdefault(key0, set()).add((bucket, key))
        self.wanted[key0] = max(shards, self.wanted.get(key0, 0))
        self.used += 1
        for actor in self.buckets[bucket].actors:
            for table in actor.tables[:2]:
                if (key in table.total or actor is self.buckets[bucket].current) and not actor.let_through(table, key):
                    table.gate(key)
        return True

    def publish_again(self, key: bytes) -> None:
        """A shard was deleted by hand, so perhaps shard 0 too, which had published it."""
        name = name_of(key)
        bucket0, key0 = self.keys.shard_key(name, 0)
        table0 = self.buckets[bucket0].tables[SlotKind.SHARDS]
        table0.acknowledged.pop(key0, None)
        table0.raise_to(key0, shard_of(key) + 1)  # (so the journal learns of it, too)
        self.again.add(key0)

    def release_published(self) -> None:
        """Release the slots whose number of shards is acknowledged by now."""
        for key0 in list(self.waiting):
            bucket0, _ = self.keys.shard_key(name_of(key0), 0)
            published = self.buckets[bucket0].tables[SlotKind.SHARDS].acknowledged.get(key0, 0)
            if published:
                self.answered(key0, published, None)

    def answered(self, key0: bytes, shards: int, refused: str | None) -> None:
        """A number of shards is published, or refused: what waited for that (and for no larger one) waits no longer."""
        self.again.discard(key0)
        if refused is None and shards < self.wanted.get(key0, 0):
            return
        self.wanted.pop(key0, None)
        for bucket, key in self.waiting.pop(key0, ()):
            for actor in self.buckets[bucket].actors:
                for table in actor.tables[:2]:
                    table.release(key, refused)
