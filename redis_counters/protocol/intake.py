"""Where increments go: from the buffer into the totals of the right actor, under the right key."""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

from redis_counters.crdt.slotmap import INT64_MAX
from redis_counters.errors import SchemaMismatch
from redis_counters.protocol.bucket import Bucket
from redis_counters.protocol.buffer import Buffer
from redis_counters.protocol.gates import Gates
from redis_counters.protocol.keys import KeySpace, name_of
from redis_counters.protocol.settings import Settings
from redis_counters.protocol.shards import Shards
from redis_counters.protocol.slots import Kind, Table


class Intake:
    """What was counted and is not lost sight of: the part of the write side that callers feed."""

    def __init__(self, settings: Settings, buffer: Buffer, mint: Callable[[], str]) -> None:
        self.settings = settings
        self.buffer = buffer
        self.mint = mint
        self.shards = Shards(settings.shards)
        self.choice = crc32(mint().encode())  # of the shard, in every counter, that this process writes to
        self.keys: KeySpace | None = None
        self.buckets: list[Bucket] = []
        self.gates: Gates | None = None
        self.early: tuple[dict[bytes, int], dict[bytes, int]] = ({}, {})  # counted before the buckets are known
        self.unplaced: dict[str | bytes, int] = {}  # taken from the buffer, not yet in the totals
        self.batches = 0  # how often something was taken
        self.overflowed: dict[bytes, int] = {}  # what did not fit into the own slot, by name
        self.accepted = 0
        self.epoch = 0  # grows with every change that a read could show
        self.doubtful = False  # a registry was lost: the namespace's record may be lost with it

    def settle(self, keys: KeySpace, now: float) -> None:
        """The buckets are known: what was counted so far gets its places.

        Raises: SchemaMismatch if they are known already, and were others.
        """
        self.doubtful = False
        if self.keys is not None:
            if keys.buckets != self.keys.buckets:
                raise SchemaMismatch(
                    f"namespace {keys.namespace.decode()!r} was lost and made anew with {keys.buckets} buckets, "
                    f"this client counts in {self.keys.buckets}"
                )
            return
        self.keys = keys
        self.buckets = [Bucket(b, keys.registries[b], self.settings, self.mint, now) for b in range(keys.buckets)]
        self.gates = Gates(keys, self.buckets)
        plus, minus = self.early
        self.early = ({}, {})
        for name, amount in plus.items():
            self._add(name, amount, Kind.PLUS)
        for name, amount in minus.items():
            self._add(name, amount, Kind.MINUS)
        self.epoch += 1

    def drain(self) -> None:
        """All that callers counted before this call is in the totals. Cost: O(increments since the last time).

        Not what they count meanwhile: they may be faster than this is.
        """
        if self.unplaced:
            self.place()
        if self.buffer.ones:
            self.take_batch()
            self.place()
        self.drain_amounts()

    def drain_amounts(self) -> None:
        """As `drain`, of all but the increments by one."""
        if self.buffer.amounts:
            self.epoch += 1  # before the buffer is emptied: see Reads.at_hand
            for name, amount in self.buffer.drain_amounts():
                self.accepted += 1
                raw = name.encode() if isinstance(name, str) else name
                self._add(raw, abs(amount), Kind.PLUS if amount > 0 else Kind.MINUS)

    def take_batch(self) -> None:
        """The increments by one in the buffer are the next batch, if the last one is done. Cost: O(increments)."""
        if self.unplaced or not self.buffer.ones:
            return
        self.epoch += 1  # before the buffer is emptied: see Reads.at_hand
        self.unplaced = self.buffer.drain_ones()
        self.batches += 1
        self.accepted += sum(self.unplaced.values())

    def place(self, limit: int | None = None) -> None:
        """Up to ``limit`` names of the batch are in the totals; None: all."""
        unplaced = self.unplaced
        self.epoch += 1
        keys, pop = self.keys, unplaced.popitem
        count_of_names = len(unplaced) if limit is None else min(limit, len(unplaced))
        if keys is None or not self.shards.single:
            for _ in range(count_of_names):
                name, count = pop()
                self._add(name.encode() if isinstance(name, str) else name, count, Kind.PLUS)
            return
        # The common case, spelled out: it is a third of the client's cost of a flush of distinct names.
        buckets, prefixes, number, most = self.buckets, keys.shard0, keys.buckets, INT64_MAX
        for _ in range(count_of_names):
            name, count = pop()
            if name.__class__ is str:
                name = name.encode()
            index = crc32(name) % number  # type: ignore[arg-type]  # bytes by now
            key = prefixes[index] + name  # type: ignore[operator]  # bytes by now
            total, dirty = buckets[index].plus
            if key in total:
                after = total[key] + count
                if after > most:
                    self._overflow(name_of(key), count)
                    continue
                total[key] = after
            else:
                total[key] = count
            dirty[key] = None

    def _add(self, name: bytes, amount: int, kind: Kind) -> None:
        if self.keys is None or self.gates is None:
            early = self.early[kind]
            after = early.get(name, 0) + amount
            if after > INT64_MAX:
                self._overflow(name, amount)
            else:
                early[name] = after
            return
        shards = self.shards.of(name)
        shard = self.choice % shards
        bucket, key = self.keys.shard_key(name, shard)
        if shard:
            self.gates.publish(name, shards, bucket, key)
        table = self.buckets[bucket].tables[kind]
        if table.total.get(key, 0) + amount > INT64_MAX:
            self._overflow(name, amount)
        else:
            table.add(key, amount)

    def _overflow(self, name: bytes, amount: int) -> None:
        self.overflowed[name] = self.overflowed.get(name, 0) + amount

    def _own(self, name: bytes) -> tuple[bytes, tuple[Table, Table, Table]]:
        """Return the key of the shard that this process writes to, and the tables with its slots in it."""
        assert self.keys is not None
        bucket, key = self.keys.shard_key(name, self.choice % self.shards.of(name))
        return key, self.buckets[bucket].tables

    def holds(self, name: bytes) -> bool:
        """True if the name waits to be acknowledged: counting it takes no more memory. Call `drain` before."""
        if self.keys is None:
            return name in self.early[0] or name in self.early[1]
        key, tables = self._own(name)
        return any(table.total.get(key, 0) > table.acknowledged.get(key, 0) for table in tables[:2])

    def room(self, name: bytes, sign: int) -> int:
        """Return how much the own slot of that sign can still take in. Call `drain` before."""
        kind = Kind.PLUS if sign > 0 else Kind.MINUS
        if self.keys is None:
            return INT64_MAX - self.early[kind].get(name, 0)
        key, tables = self._own(name)
        return INT64_MAX - tables[kind].total.get(key, 0)
