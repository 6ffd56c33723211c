"""Where increments go: from the buffer into the totals of the right actor, under the right key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from zlib import crc32

from redis_counters.crdt.sum_fields import INT64_MAX
from redis_counters.errors import SchemaMismatch
from redis_counters.protocol.wire.keys import KeySpace, name_of
from redis_counters.protocol.wire.settings import Settings
from redis_counters.protocol.wire.shard_counts import Shards
from redis_counters.protocol.write.actor_set import ActorSet
from redis_counters.protocol.write.buffer import Buffer
from redis_counters.protocol.write.expiries import Expiries
from redis_counters.protocol.write.shard_publication import ShardPublication
from redis_counters.protocol.write.slot_totals import SlotKind, SlotTotals


class Accumulator:
    """What was counted and is not lost sight of: the part of the write side that callers feed."""

    def __init__(self, settings: Settings, buffer: Buffer, mint: Callable[[], str]) -> None:
        self.settings = settings
        self.buffer = buffer
        self.mint = mint
        self.shards = Shards(settings.shards)
        self.choice = crc32(mint().encode())  # of the shard, in every counter, that this process writes to
        self.expiries = Expiries(journal=settings.journal is not None)
        self.keys: KeySpace | None = None
        self.buckets: list[ActorSet] = []
        self.gates: ShardPublication | None = None
        self.early: tuple[dict[bytes, int], dict[bytes, int]] = ({}, {})  # counted before the buckets are known
        self.taken: list[str | bytes] = []  # from the buffer, not yet counted by name
        self.taken_amounts: list[tuple[str | bytes, int]] = []  # the same, last first
        self.batch: list[str | bytes] = []  # counted by name, on its way into the totals,
        self.counts: list[int] = []  # and how often each
        self.placed = 0  # how much of the batch is there
        self.batches = 0  # how many there were
        self.overflowed: dict[bytes, int] = {}  # what did not fit into the own slot, by name
        self.accepted = 0
        self.epoch = 0  # grows with every change that a read could show
        self.doubtful = False  # a registry was lost: the namespace's record may be lost with it
        self.early_changed: tuple[dict[bytes, None], dict[bytes, None]] = ({}, {})  # since the journal saw it
        self.calls = 0  # the last call that was recorded by itself, and is in the totals

    @property
    def presumed_keys(self) -> KeySpace:
        """The keys of the namespace; as long as nobody has found its record, by this client's own options."""
        return self.keys or KeySpace(self.settings.namespace, self.settings.buckets)

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
        self.buckets = [
            ActorSet(b, keys.registries[b], self.settings, self.mint, now, self.expiries) for b in range(keys.buckets)
        ]
        self.gates = ShardPublication(keys, self.buckets)
        self._place_early()

    def _place_early(self) -> None:
        self.epoch += 1
        self.mark_moved()
        for kind in (SlotKind.PLUS, SlotKind.MINUS):
            early = self.early[kind]
            for name in list(early):  # not always the first: that is looked for behind all that were taken away
                if name not in early:
                    continue  # a signal handler that flushed has placed it
                totals, key, after, to_send = self._place_for(name, early[name], kind)
                totals[key] = after
                if to_send is not None:
                    to_send[key] = None
                del early[name]

    def mark_moved(self) -> None:
        """What the current actors hold came from another place: a journal must know before they tell it."""
        for bucket in self.buckets:
            bucket.current.moved += 1

    def drain(self) -> None:
        """All that callers counted before this call is in the totals. Cost: O(increments since the last time).

        Not what they count meanwhile: they may be faster than this is.
        """
        if self.keys is not None and (self.early[0] or self.early[1]):
            self._place_early()  # an exception came up in the middle
        if len(self.batch) > self.placed:
            self.place()
        if self.buffer.ones or self.taken:
            self.take_batch()
            self.place()
        if self.buffer.amounts or self.taken_amounts:
            self.drain_amounts()

    # An exception may come up between any two steps here (Ctrl-C, a signal handler that raises). So something is
    # taken away only in the step that also keeps it: CPython raises such exceptions after calls, and between those two
    # stores there is none.

    def drain_amounts(self) -> None:
        """As `drain`, of all but the increments by one."""
        amounts = self.buffer.amounts
        if amounts and not self.taken_amounts:
            self.epoch += 1  # before the buffer is emptied: see Reads.at_hand
            count = len(amounts)
            taken = amounts[:count]
            taken.reverse()
            del amounts[:count]
            self.taken_amounts = taken
            self.buffer.asked.value = False
        taken = self.taken_amounts
        while taken:
            name, amount = taken[-1]
            raw = name.encode() if isinstance(name, str) else name
            kind = SlotKind.PLUS if amount > 0 else SlotKind.MINUS
            totals, key, after, to_send = self._place_for(raw, abs(amount), kind)
            totals[key] = after
            if to_send is not None:
                to_send[key] = None
            del taken[-1]
            self.accepted += 1

    def take_batch(self) -> None:
        """The increments by one in the buffer are the next batch, if the last one is done. Cost: O(increments)."""
        if self.unplaced:
            return
        if not self.taken:
            ones = self.buffer.ones
            if not ones:
                return
            self.epoch += 1  # before the buffer is emptied: see Reads.at_hand
            count = len(ones)
            taken = ones[:count]
            del ones[:count]
            self.taken = taken
            self.buffer.asked.value = False
        counter = Counter(self.taken)
        # Not a list of pairs: the garbage collector follows those.
        batch, counts = list(counter), list(counter.values())
        self.batches += 1
        self.accepted += len(self.taken)
        self.batch, self.counts, self.placed = batch, counts, 0
        self.taken = []

    @property
    def unabsorbed(self) -> bool:
        """Something was taken from the buffer and is not in the totals yet."""
        return len(self.batch) > self.placed or bool(self.taken or self.taken_amounts)

    @property
    def unplaced(self) -> int:
        """How many names of the batch are not in the totals yet."""
        return len(self.batch) - self.placed

    def place(self, limit: int | None = None) -> None:
        """Up to ``limit`` names of the batch are in the totals; None: all."""
        first, end = self.placed, len(self.batch)
        if first == end:
            return
        self.epoch += 1
        if limit is not None:
            end = min(end, first + limit)
        keys, batch, counts = self.keys, self.batch, self.counts
        if keys is None or not self.shards.single or self.settings.journal is not None:
            for at in range(first, end):
                name = batch[at]
                raw = name.encode() if isinstance(name, str) else name
                totals, key, after, to_send = self._place_for(raw, counts[at], SlotKind.PLUS)
                totals[key] = after
                if to_send is not None:
                    to_send[key] = None
                self.placed = at + 1
            self._release_batch()
            return
        # The common case, spelled out: it is a third of the client's cost of a flush of distinct names.
        buckets, prefixes, number, most = self.buckets, keys.shard0, keys.buckets, INT64_MAX
        done = first
        try:
            for name, count in zip(batch[first:end], counts[first:end], strict=True):
                if name.__class__ is str:
                    name = name.encode()  # noqa: PLW2901
                index = crc32(name) % number  # type: ignore[arg-type]  # bytes by now
                key = prefixes[index] + name  # type: ignore[operator]  # bytes by now
                total, dirty = buckets[index].plus
                if key in total:
                    amount, count = count, count + total[key]  # noqa: PLW2901
                    if count > most:
                        overflowed, raw, after, _ = self._overflow_place(name_of(key), amount)
                        overflowed[raw] = after
                        done += 1
                        continue
                total[key] = count
                dirty[key] = None
                done += 1
        finally:
            self.placed = done
            self._release_batch()

    def _release_batch(self) -> None:
        """The names of a batch are kept as long as somebody counts them, and not here."""
        if self.placed == len(self.batch):
            self.batch, self.counts, self.placed = [], [], 0

    def _place_for(
        self, name: bytes, amount: int, kind: SlotKind
    ) -> tuple[dict[bytes, int], bytes, int, dict[bytes, None] | None]:
        """Return where an amount goes: the totals, its key in them, its new total there, and what is to be sent then.

        The caller stores it himself, next to the step that takes it away where it came from.
        """
        if self.keys is None or self.gates is None:
            early = self.early[kind]
            after = early.get(name, 0) + amount
            if after > INT64_MAX:
                return self._overflow_place(name, amount)
            if self.settings.journal is not None:
                self.early_changed[kind][name] = None
            return early, name, after, None
        shards = self.shards.of(name)
        shard = self.choice % shards
        bucket, key = self.keys.shard_key(name, shard)
        if shard:
            self.gates.publish(name, shards, bucket, key)
        elif shards > 1 and self.shards.is_set(name):
            self.gates.tell(name, shards)  # for the other processes: this one may write to shard 0 at any time
        table = self.buckets[bucket].tables[kind]
        after = table.total.get(key, 0) + amount
        if after > INT64_MAX:
            return self._overflow_place(name, amount)
        if table.changed is not None:
            table.changed[key] = None
        return table.total, key, after, None if key in table.gated else table.dirty

    def follow(self, name: bytes, shards: int) -> None:
        """The counter has fewer shards than this process knew, as Redis says, unless it has counted in the others.

        No count is in a shard that Redis does not tell of: see `reshard`. Cost: O(shards that were known).
        """
        if self.keys is None:
            return
        bucket0, key0 = self.keys.shard_key(name, 0)
        # (It has told of more itself, or is about to; or it has counted there.)
        own = any(actor.tables[SlotKind.SHARDS].total.get(key0, 0) > shards for actor in self.buckets[bucket0].actors)
        places = (self.keys.shard_key(name, shard) for shard in range(shards, self.shards.of(name)))
        slots = (key in t.total for bucket, key in places for a in self.buckets[bucket].actors for t in a.tables[:2])
        if not own and not any(slots):
            self.shards.lower(name, shards)

    def raise_shards(self, name: bytes, shards: int) -> None:
        """The counter has at least that many shards, and shard 0 will say so, whether this process uses them or not."""
        self.shards.learn(name, shards)
        if self.gates is not None:
            self.gates.tell(name, shards)
        self.epoch += 1

    def _overflow_place(self, name: bytes, amount: int) -> tuple[dict[bytes, int], bytes, int, None]:
        return self.overflowed, name, self.overflowed.get(name, 0) + amount, None

    def _own(self, name: bytes) -> tuple[bytes, tuple[SlotTotals, SlotTotals, SlotTotals]]:
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

    def owns(self, name: bytes) -> bool:
        """True if this process has, or may have, a slot in any shard of the counter. Cost: O(shards)."""
        if self.keys is None or self.unabsorbed:
            return True
        places = (self.keys.shard_key(name, shard) for shard in range(self.shards.of(name)))
        return any(
            key in table.total for bucket, key in places for a in self.buckets[bucket].actors for table in a.tables
        )

    def room(self, name: bytes, sign: int) -> int:
        """Return how much the own slot of that sign can still take in. Call `drain` before."""
        kind = SlotKind.PLUS if sign > 0 else SlotKind.MINUS
        if self.keys is None:
            return INT64_MAX - self.early[kind].get(name, 0)
        key, tables = self._own(name)
        return INT64_MAX - tables[kind].total.get(key, 0)
