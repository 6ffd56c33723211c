"""Where an amount goes: to the totals of the right actor, under the key of the right shard."""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

from redis_counters.crdt.shard_fields import INT64_MAX
from redis_counters.errors import SchemaMismatch
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.protocol.wire.settings import Settings
from redis_counters.protocol.wire.shard_counts import Shards
from redis_counters.protocol.write.actor import Actor
from redis_counters.protocol.write.actor_set import ActorSet
from redis_counters.protocol.write.expiries import Expiries
from redis_counters.protocol.write.shard_publication import ShardPublication
from redis_counters.protocol.write.slot_totals import SlotKind, SlotTotals

Route = tuple[dict[bytes, int], bytes, int, dict[bytes, None] | None]
"""Where an amount goes: the totals, its key in them, its new total there, and what is to be sent then.

The caller stores them itself, next to the step that takes the amount away.
"""


class Router:
    """The buckets with their actors; and counts from before the buckets were known, by name."""

    def __init__(self, settings: Settings, mint: Callable[[], str]) -> None:
        self.settings = settings
        self.mint = mint
        self.shards = Shards(settings.shards)
        self.choice = crc32(mint().encode())  # of the shard, in every counter, that this process writes to
        self.expiries = Expiries(journal=settings.journal is not None)
        self.keys: KeySpace | None = None
        self.buckets: list[ActorSet] = []
        self.publication: ShardPublication | None = None
        self.unrouted: tuple[dict[bytes, int], dict[bytes, int]] = ({}, {})
        self.unrouted_changed: tuple[dict[bytes, None], dict[bytes, None]] = ({}, {})  # since the journal saw it
        self.overflowed: dict[bytes, int] = {}  # what did not fit into the own slot, by name
        self.epoch = 0  # grows with every change that a read could show

    @property
    def presumed_keys(self) -> KeySpace:
        """The keys of the namespace; as long as its record was not found, by this client's own options."""
        return self.keys or KeySpace(self.settings.namespace, self.settings.buckets)

    def settle(self, keys: KeySpace, now: float) -> bool:
        """The buckets are known. True if they were not before.

        Raises: SchemaMismatch if they were, and were others.
        """
        if self.keys is not None:
            if keys.buckets != self.keys.buckets:
                raise SchemaMismatch(
                    f"namespace {keys.namespace.decode()!r} was lost and made anew with {keys.buckets} buckets, "
                    f"this client counts in {self.keys.buckets}"
                )
            return False
        self.keys = keys
        self.buckets = [
            ActorSet(b, keys.registries[b], self.settings, self.mint, now, self.expiries) for b in range(keys.buckets)
        ]
        self.publication = ShardPublication(keys, self.buckets)
        return True

    def mark_moved(self) -> None:
        """Totals were moved to the current actors; record them in the journal before sending."""
        for bucket in self.buckets:
            bucket.current.moved += 1

    # -- the actors

    def actors(self) -> list[Actor]:
        """Return all actors. Cost: O(buckets)."""
        return [actor for bucket in self.buckets for actor in bucket.actors]

    def buckets_in_use(self, first: int = 0) -> list[ActorSet]:
        """Return the buckets that anything was counted in, in turn from that one.

        In all others there is nothing to send, to ask or to end.
        """
        buckets = []
        for bucket in self.buckets[first:] + self.buckets[:first]:
            if any(bucket.contents) or len(bucket.actors) > 1 or bucket.actors[0].id:
                buckets.append(bucket)  # noqa: PERF401 - a comprehension is one more call, several times a flush
        return buckets

    def actors_in_use(self) -> list[Actor]:
        """Return the actors of these buckets."""
        actors: list[Actor] = []
        for bucket in self.buckets_in_use():
            actors += bucket.actors
        return actors

    def own(self, bucket: int) -> list[Actor]:
        """Return the actors of this process in a bucket."""
        return self.buckets[bucket].actors if self.buckets else []

    # -- one name

    def route(self, name: bytes, amount: int, kind: SlotKind) -> Route:
        """Return where an amount goes."""
        if self.keys is None or self.publication is None:
            unrouted = self.unrouted[kind]
            after = unrouted.get(name, 0) + amount
            if after > INT64_MAX:
                return self.overflow(name, amount)
            if self.settings.journal is not None:
                self.unrouted_changed[kind][name] = None
            return unrouted, name, after, None
        shards = self.shards.of(name)
        shard = self.choice % shards
        bucket, key = self.keys.shard_key(name, shard)
        if shard:
            self.publication.publish_or_wait(name, shards, bucket, key)
        elif shards > 1 and self.shards.is_set(name):
            self.publication.publish(name, shards)  # for the other processes: this one may write to shard 0 at any time
        table = self.buckets[bucket].tables[kind]
        after = table.total.get(key, 0) + amount
        if after > INT64_MAX:
            return self.overflow(name, amount)
        if table.changed is not None:
            table.changed[key] = None
        return table.total, key, after, None if key in table.gated else table.dirty

    def overflow(self, name: bytes, amount: int) -> Route:
        """Return where an amount goes that the own slot has no room for."""
        return self.overflowed, name, self.overflowed.get(name, 0) + amount, None

    def follow(self, name: bytes, shards: int) -> None:
        """Lower the number of shards to what Redis says, unless this process has counted in the others.

        No count is in a shard that is not published: see `reshard`. Cost: O(shards that were known).
        """
        if self.keys is None:
            return
        bucket0, key0 = self.keys.shard_key(name, 0)
        # (It has published more itself, or is about to; or it has counted there.)
        own = any(actor.tables[SlotKind.SHARDS].total.get(key0, 0) > shards for actor in self.buckets[bucket0].actors)
        places = (self.keys.shard_key(name, shard) for shard in range(shards, self.shards.of(name)))
        slots = (key in t.total for bucket, key in places for a in self.buckets[bucket].actors for t in a.tables[:2])
        if not own and not any(slots):
            self.shards.lower(name, shards)

    def raise_shards(self, name: bytes, shards: int) -> None:
        """Raise the number of shards to that, and publish it in shard 0, whether this process uses them or not."""
        self.shards.learn(name, shards)
        if self.publication is not None:
            self.publication.publish(name, shards)
        self.epoch += 1

    def _own_slots(self, name: bytes) -> tuple[bytes, tuple[SlotTotals, SlotTotals, SlotTotals]]:
        """Return the key of the shard that this process writes to, and the tables with its slots in it."""
        assert self.keys is not None
        bucket, key = self.keys.shard_key(name, self.choice % self.shards.of(name))
        return key, self.buckets[bucket].tables

    def is_pending(self, name: bytes) -> bool:
        """True if the name waits to be acknowledged: counting it takes no more memory. Call `drain` before."""
        if self.keys is None:
            return name in self.unrouted[0] or name in self.unrouted[1]
        key, tables = self._own_slots(name)
        return any(table.total.get(key, 0) > table.acknowledged.get(key, 0) for table in tables[:2])

    def owns(self, name: bytes) -> bool:
        """True if this process has, or may have, a slot in any shard. Call `drain` before. Cost: O(shards)."""
        if self.keys is None:
            return True
        places = (self.keys.shard_key(name, shard) for shard in range(self.shards.of(name)))
        return any(
            key in table.total for bucket, key in places for a in self.buckets[bucket].actors for table in a.tables
        )

    def room(self, name: bytes, sign: int) -> int:
        """Return how much the own slot of that sign can still take in. Call `drain` before."""
        kind = SlotKind.PLUS if sign > 0 else SlotKind.MINUS
        if self.keys is None:
            return INT64_MAX - self.unrouted[kind].get(name, 0)
        key, tables = self._own_slots(name)
        return INT64_MAX - tables[kind].total.get(key, 0)
