"""From the buffer into the totals: what callers count is claimed, counted by name, and routed."""

from __future__ import annotations

from collections import Counter
from zlib import crc32

from redis_counters.crdt.shard_fields import INT64_MAX
from redis_counters.protocol.wire.keys import name_of
from redis_counters.protocol.write.buffer import Buffer
from redis_counters.protocol.write.router import Router
from redis_counters.protocol.write.slot_totals import SlotKind


class Accumulator:
    """Counts that were taken from the buffer, on their way into the totals. None is lost sight of."""

    def __init__(self, router: Router, buffer: Buffer) -> None:
        self.router = router
        self.buffer = buffer
        self.claimed: list[str | bytes] = []  # from the buffer, not yet counted by name
        self.claimed_amounts: list[tuple[str | bytes, int]] = []  # the same, last first
        self.names: list[str | bytes] = []  # the batch: counted by name, on its way into the totals,
        self.counts: list[int] = []  # and how often each
        self.placed = 0  # how much of the batch is there
        self.batches = 0  # how many there were
        self.accepted = 0

    def route_unrouted(self) -> None:
        """Move the counts from before the buckets were known into the totals."""
        router = self.router
        router.epoch += 1
        router.mark_moved()
        for kind in (SlotKind.PLUS, SlotKind.MINUS):
            unrouted = router.unrouted[kind]
            for name in list(unrouted):  # not always the first: that is looked for behind all that were taken away
                if name not in unrouted:
                    continue  # a signal handler that flushed has placed it
                totals, key, after, to_send = router.route(name, unrouted[name], kind)
                totals[key] = after
                if to_send is not None:
                    to_send[key] = None
                del unrouted[name]

    def drain(self) -> None:
        """Move all that callers counted before this call into the totals. Cost: O(increments since the last time).

        Counts that come meanwhile stay in the buffer: callers may be faster than this is.
        """
        if self.router.keys is not None and any(self.router.unrouted):
            self.route_unrouted()  # an exception came up in the middle
        if len(self.names) > self.placed:
            self.place()
        if self.buffer.ones or self.claimed:
            self.take_batch()
            self.place()
        if self.buffer.amounts or self.claimed_amounts:
            self.drain_amounts()

    # An exception may come up between any two steps here (Ctrl-C, a signal handler that raises). So something is
    # taken away only in the step that also keeps it: CPython raises such exceptions after calls, and between those two
    # stores there is none.

    def drain_amounts(self) -> None:
        """As `drain`, of all but the increments by one."""
        amounts = self.buffer.amounts
        if amounts and not self.claimed_amounts:
            self.router.epoch += 1  # before the buffer is emptied: see Reads.cached_nowait
            count = len(amounts)
            taken = amounts[:count]
            taken.reverse()
            del amounts[:count]
            self.claimed_amounts = taken
            self.buffer.flush_requested.value = False
        taken = self.claimed_amounts
        while taken:
            name, amount = taken[-1]
            raw = name.encode() if isinstance(name, str) else name
            kind = SlotKind.PLUS if amount > 0 else SlotKind.MINUS
            totals, key, after, to_send = self.router.route(raw, abs(amount), kind)
            totals[key] = after
            if to_send is not None:
                to_send[key] = None
            del taken[-1]
            self.accepted += 1

    def take_batch(self) -> None:
        """Take the buffer's increments by one as the next batch, if the last one is done. Cost: O(increments)."""
        if self.unplaced:
            return
        if not self.claimed:
            ones = self.buffer.ones
            if not ones:
                return
            self.router.epoch += 1  # before the buffer is emptied: see Reads.cached_nowait
            count = len(ones)
            taken = ones[:count]
            del ones[:count]
            self.claimed = taken
            self.buffer.flush_requested.value = False
        counter = Counter(self.claimed)
        # Not a list of pairs: the garbage collector follows those.
        batch, counts = list(counter), list(counter.values())
        self.batches += 1
        self.accepted += len(self.claimed)
        self.names, self.counts, self.placed = batch, counts, 0
        self.claimed = []

    @property
    def unabsorbed(self) -> bool:
        """True if something was taken from the buffer and is not in the totals yet."""
        return len(self.names) > self.placed or bool(self.claimed or self.claimed_amounts)

    @property
    def unplaced(self) -> int:
        """How many names of the batch are not in the totals yet."""
        return len(self.names) - self.placed

    def place(self, limit: int | None = None) -> None:
        """Move up to ``limit`` names of the batch into the totals; None: all."""
        first, end = self.placed, len(self.names)
        if first == end:
            return
        router = self.router
        router.epoch += 1
        if limit is not None:
            end = min(end, first + limit)
        keys, batch, counts = router.keys, self.names, self.counts
        if keys is None or not router.shards.single or router.settings.journal is not None:
            for at in range(first, end):
                name = batch[at]
                raw = name.encode() if isinstance(name, str) else name
                totals, key, after, to_send = router.route(raw, counts[at], SlotKind.PLUS)
                totals[key] = after
                if to_send is not None:
                    to_send[key] = None
                self.placed = at + 1
            self._release_batch()
            return
        # The common case, spelled out: it is a third of the client's cost of a flush of distinct names.
        buckets, prefixes, number, most = router.buckets, keys.shard0, keys.buckets, INT64_MAX
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
                        overflowed, raw, after, _ = router.overflow(name_of(key), amount)
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
        """Forget the names of a batch that is done."""
        if self.placed == len(self.names):
            self.names, self.counts, self.placed = [], [], 0
