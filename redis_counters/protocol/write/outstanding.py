"""Counts that are not acknowledged yet: how many there are, and which of them Redis refuses."""

from __future__ import annotations

from redis_counters.errors import Overflow, Refused, quoted
from redis_counters.protocol.wire.keys import name_of, shard_of
from redis_counters.protocol.wire.refusals import refusal
from redis_counters.protocol.wire.values import name_shown
from redis_counters.protocol.write.accumulator import Accumulator
from redis_counters.protocol.write.slot_totals import SlotKind


class Outstanding:
    """Answers questions about counts that are in flight, or held back."""

    def __init__(self, accumulator: Accumulator) -> None:
        self.accumulator = accumulator
        self.router = accumulator.router

    def waiting(self) -> int:
        """Return how many slots are not acknowledged. Cost: O(buckets)."""
        count = self.accumulator.unplaced + sum(map(len, self.router.unrouted))
        for actor in self.router.actors_in_use():
            count += len(actor.unknown) if actor.unknown is not None else 0
            for table in actor.tables:
                count += len(table.dirty) + len(table.gated) + len(table.refused)
        return count

    def pending(self) -> dict[str | bytes, int]:
        """Return the amount per name that is not acknowledged. Cost: O(names held)."""
        self.accumulator.drain()
        amounts: dict[bytes, int] = dict(self.router.unrouted[0])
        for name, amount in self.router.unrouted[1].items():
            amounts[name] = amounts.get(name, 0) - amount
        for actor in self.router.actors_in_use():
            for table, sign in zip(actor.tables, (1, -1), strict=False):
                for key, amount in table.pending():
                    name = name_of(key)
                    amounts[name] = amounts.get(name, 0) + sign * amount
        return {name_shown(name): amount for name, amount in amounts.items() if amount}

    def refusals(self) -> list[Refused]:
        """Return what Redis, or the range of a slot, refuses at present, one error per counter."""
        found: dict[bytes, Refused] = {
            name: Overflow(f"counter {quoted(name)}: {amount} more do not fit into an int64 slot", counter=name)
            for name, amount in self.router.overflowed.items()
        }
        for actor in self.router.actors_in_use():
            for table in actor.tables:
                for key, text in table.refused.items():
                    found.setdefault(name_of(key), refusal(key, text))
        return list(found.values())

    def retry_refused(self) -> None:
        """Send again what Redis refused; in other shards than 0 only when their number is published."""
        publication = self.router.publication
        for actor in self.router.actors_in_use() if publication is not None else ():
            for table in actor.tables:
                if not table.refused:
                    continue
                refused, table.refused = table.refused, {}
                for key in refused:
                    shard = shard_of(key)
                    if publication is not None and shard and table.kind is not SlotKind.SHARDS:
                        name = name_of(key)
                        shards = max(self.router.shards.of(name), shard + 1)
                        publication.publish_or_wait(name, shards, actor.bucket, key)
                    if key not in table.gated:
                        table.dirty[key] = None
