"""What is not across yet: the part of the write side that callers ask about, and what Redis refuses of it."""

from __future__ import annotations

from redis_counters.errors import Overflow, Refused, quoted
from redis_counters.protocol.wire.keys import name_of, shard_of
from redis_counters.protocol.wire.refusals import refusal
from redis_counters.protocol.wire.values import name_shown
from redis_counters.protocol.write.accumulator import Accumulator
from redis_counters.protocol.write.actor import Actor
from redis_counters.protocol.write.actor_set import ActorSet
from redis_counters.protocol.write.slot_totals import SlotKind


class Outstanding(Accumulator):
    """What was counted, on its way or held back."""

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

    def waiting(self) -> int:
        """Return how many slots are not acknowledged. Cost: O(buckets)."""
        count = self.unplaced + len(self.early[0]) + len(self.early[1])
        for actor in self.actors_in_use():
            count += len(actor.unknown) if actor.unknown is not None else 0
            for table in actor.tables:
                count += len(table.dirty) + len(table.gated) + len(table.refused)
        return count

    def pending(self) -> dict[str | bytes, int]:
        """Return the amount per name that is not acknowledged. Cost: O(names held)."""
        self.drain()
        amounts: dict[bytes, int] = dict(self.early[0])
        for name, amount in self.early[1].items():
            amounts[name] = amounts.get(name, 0) - amount
        for actor in self.actors_in_use():
            for table, sign in zip(actor.tables, (1, -1), strict=False):
                for key, amount in table.pending():
                    name = name_of(key)
                    amounts[name] = amounts.get(name, 0) + sign * amount
        return {name_shown(name): amount for name, amount in amounts.items() if amount}

    def refusals(self) -> list[Refused]:
        """Return what Redis, or the range of a slot, refuses at present, one error per counter."""
        found: dict[bytes, Refused] = {
            name: Overflow(f"counter {quoted(name)}: {amount} more do not fit into an int64 slot", counter=name)
            for name, amount in self.overflowed.items()
        }
        for actor in self.actors_in_use():
            for table in actor.tables:
                for key, text in table.refused.items():
                    found.setdefault(name_of(key), refusal(key, text))
        return list(found.values())

    def retry_refused(self) -> None:
        """What Redis refused is to be sent again; in other shards than 0 only when their number is published."""
        gates = self.gates
        for actor in self.actors_in_use() if gates is not None else ():
            for table in actor.tables:
                if not table.refused:
                    continue
                refused, table.refused = table.refused, {}
                for key in refused:
                    shard = shard_of(key)
                    if gates is not None and shard and table.kind is not SlotKind.SHARDS:
                        name = name_of(key)
                        gates.publish(name, max(self.shards.of(name), shard + 1), actor.bucket, key)
                    if key not in table.gated:
                        table.dirty[key] = None
