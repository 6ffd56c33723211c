"""Values from memory: a cache of snapshots, their merge with own counts, and which reader fetches new ones.

A value is the snapshot, with this process's own slots raised to its own totals: the process is a replica too, so it
reads its own writes at once (Almeida & Baquero, Scalable Eventually Consistent Counters, section 3: a value is never
above what was issued, and never less than the own increments since the last read).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from redis_counters.crdt.shard_fields import INT64_MAX
from redis_counters.errors import CounterError, Refused
from redis_counters.protocol.read.snapshot import Snapshot
from redis_counters.protocol.wire.values import CounterValue, made_value
from redis_counters.protocol.write.writer import Writer

MAX_CACHED = 10_000  # names; the oldest snapshots go first
MAX_FAILURES = 1_000  # names; a reader that waited for one that is forgotten asks itself
MAX_AHEAD = 1_000  # increments in the buffer that a read from memory looks through
NEARLY_FULL = INT64_MAX - 2**48  # of a slot: farther from its end than a buffer is long

T = TypeVar("T")


class FetchPlan(NamedTuple):
    """Values for a reader, and names that it has to fetch; if ``busy``, after another fetch is over."""

    values: dict[bytes, CounterValue]
    missing: list[bytes]
    busy: bool


class FetchLease:
    """The names that one reader fetches; ``reader`` is its thread or task, where a driver says so.

    The reader owns it before names are added; ``over`` is set as the first thing when it is through, or interrupted,
    and counts from then on, even if another exception keeps it from releasing the names.
    """

    __slots__ = ("names", "over", "reader")

    def __init__(self, reader: object = None) -> None:
        self.reader = reader
        self.names: list[bytes] = []
        self.over = False


class ReadCache:
    """Values by name, as far as snapshots are at hand; `Reads` fetches them. Not thread-safe: drivers lock."""

    def __init__(self, writer: Writer, clock: Callable[[], float]) -> None:
        self.writer = writer
        self.router = writer.router
        self.ones, self.amounts = writer.accumulator.buffer.ones, writer.accumulator.buffer.amounts
        self.clock = clock
        self.snapshots: dict[bytes, Snapshot] = {}
        self.fetching: dict[bytes, FetchLease] = {}
        self.outdated: dict[bytes, float] = {}  # since when a fetch that is under way may lack something
        self.failures: dict[bytes, tuple[float, CounterError]] = {}  # when a fetch of a name failed, and how

    def cached(self, name: bytes, max_age: float | None) -> CounterValue | None:
        """Return the value if a snapshot not older than ``max_age`` seconds is at hand (None: as the option says)."""
        snapshot = self.snapshots.get(name)
        if snapshot is None or snapshot.drops != self.writer.drops:
            return None
        now = self.clock()
        if now >= snapshot.fresh_until if max_age is None else now - snapshot.taken >= max_age:
            return None
        return self.value(name, snapshot)

    def cached_nowait(self, name: bytes) -> CounterValue | None:
        """Return the cached value if it is fresh and no more than the buffer has changed since then. Needs no lock.

        The order matters: the epoch grows before the buffer is emptied, so a reader that finds it empty
        finds the epoch changed.
        """
        if self.amounts:
            return None
        try:
            snapshot = self.snapshots[name]
        except KeyError:
            return None
        if self.ones:
            return self._ahead(name, snapshot)
        if snapshot.epoch != self.router.epoch or snapshot.fresh_until <= self.clock():
            return None
        return snapshot.value

    def _ahead(self, name: bytes, snapshot: Snapshot) -> CounterValue | None:
        """As `cached_nowait`, with the increments by one that wait in the buffer, as long as they are few.

        To empty the buffer for each read after an increment would take ten times as long. As long as the epoch stays
        the same, the buffer only grows: what was looked at before need not be looked at again.
        """
        epoch, seen, value = snapshot.ahead
        if epoch != snapshot.epoch:
            epoch, seen = snapshot.epoch, 0
            value = snapshot.value  # after the epoch, which is stored after it
        new = self.ones[seen : seen + MAX_AHEAD]
        if value is None or len(new) == MAX_AHEAD:
            return None
        if epoch != self.router.epoch or snapshot.fresh_until <= self.clock():  # after the buffer, as in cached_nowait
            return None
        if new:
            count = new.count(name)
            if count < len(new):
                count += new.count(name.decode(errors="replace"))  # it waits there as a str too, if it is ASCII
            if count:
                value = made_value(value + count, value.as_of, value.pending + count)
            snapshot.ahead = epoch, seen + len(new), value  # in one step: others may be at it
        return value

    def claim(self, names: Iterable[bytes], max_age: float | None, since: float | None, lease: FetchLease) -> FetchPlan:
        """Return what is at hand, and what the caller has to fetch; these are its own (on the lease) until `release`.

        Two fetches of a name at a time could not be put in order, and values would run backwards. So for a name
        in flight, the last value will do if it is not twice too old; else the caller waits, and claims again.
        ``since`` is when the caller came, once it has waited: a fetch that began later will do even without a cache.
        """
        if max_age is None and self.writer.settings.max_age == 0:
            max_age = 0
        values: dict[bytes, CounterValue] = {}
        mine = dict.fromkeys(names, lease)
        missing = list(mine)
        if max_age != 0 or since is not None:
            self.writer.accumulator.drain()
            for name in missing:
                value = self._usable(name, max_age, since)
                if value is not None:
                    values[name] = value
            if values:
                missing = [name for name in missing if name not in values]
                mine = dict.fromkeys(missing, lease)
        if self.fetching and any(name in self.fetching and not self.fetching[name].over for name in missing):
            return FetchPlan(values, missing, True)
        lease.names = missing
        self.fetching.update(mine)
        return FetchPlan(values, missing, False)

    def _usable(self, name: bytes, max_age: float | None, since: float | None) -> CounterValue | None:
        if max_age != 0:
            value = self.cached(name, max_age)
            if value is None and name in self.fetching:  # a newer value is in flight: this will do until then
                value = self.cached(name, 2 * (self.writer.settings.max_age if max_age is None else max_age))
            if value is not None:
                return value
        snapshot = self.snapshots.get(name)
        return self.last(name) if snapshot is not None and since is not None and snapshot.taken > since else None

    def fetched_by(self, name: bytes, reader: object) -> bool:
        """True if this very reader fetches it."""
        lease = self.fetching.get(name)
        return lease is not None and not lease.over and lease.reader == reader

    def forget(self, name: bytes) -> None:
        """Redis has just changed the counter for us: reads from now on must be newer than this."""
        self.snapshots.pop(name, None)
        if name in self.fetching:
            self.outdated[name] = self.clock()

    def keep(self, names: Sequence[bytes], snapshots: Sequence[Snapshot], taken: float) -> None:
        """These snapshots were fetched: they are at hand from now on, unless one is outdated already."""
        kept = self.snapshots
        for name in names:
            kept.pop(name, None)  # so that the oldest stand in front
        kept.update(zip(names, snapshots, strict=True))
        for name, since in self.outdated.items():
            if since >= taken and name in names:
                del kept[name]
        forget_oldest(kept, MAX_CACHED)

    def release(self, lease: FetchLease, failure: CounterError | None = None) -> None:
        """The fetch is over; if it failed, readers that waited for it need not find out one after the other."""
        names, fetching, outdated = lease.names, self.fetching, self.outdated
        refused = failure.errors if isinstance(failure, Refused) else {}
        for name in names:
            if fetching.get(name) is lease:
                del fetching[name]
                if outdated:
                    outdated.pop(name, None)
        if self.failures:
            for name in names:
                self.failures.pop(name, None)
        if failure is not None:
            now = self.clock()
            for name in names:
                if not refused:
                    self.failures[name] = now, failure
                elif name in refused:  # that does not concern the others
                    self.failures[name] = now, refused[name]
            forget_oldest(self.failures, MAX_FAILURES)

    def failure(self, names: Collection[bytes], since: float) -> CounterError | None:
        """Return the error of a fetch of one of these names that a reader has waited for since then.

        Not where one of several counters is refused: a reader that waits asks itself then: it is to have the others.
        """
        for name in names:
            when, error = self.failures.get(name, (-math.inf, None))
            alone = len(names) == 1 or not isinstance(error, Refused) or error.counter is None
            if when > since and alone:
                return error
        return None

    def last(self, name: bytes) -> CounterValue | None:
        """Return the value from the last snapshot, whatever its age, if there is a valid one."""
        return self.cached(name, float("inf"))

    def value(self, name: bytes, snapshot: Snapshot) -> CounterValue:
        """Return the snapshot's value, merged with what this process counted."""
        writer = self.writer
        if self.ones or self.amounts or writer.accumulator.unabsorbed:
            writer.accumulator.drain()
        if snapshot.epoch == self.router.epoch and snapshot.value is not None:
            return snapshot.value
        return self.merged(name, snapshot)

    def merged(self, name: bytes, snapshot: Snapshot) -> CounterValue:
        """As `value`, made anew; the buffer is empty."""
        router, keys = self.router, self.router.keys
        value, pending, largest = snapshot.counted, 0, 0
        if not self.writer.accumulator.accepted:
            pass  # this process has counted nothing, of any name
        elif keys is None:
            largest = router.unrouted[0].get(name, 0)
            pending = largest - router.unrouted[1].get(name, 0)
            value += pending
        else:
            places, buckets = snapshot.places, router.buckets
            if len(places) != router.shards.of(name):
                places = [keys.shard_key(name, shard) for shard in range(router.shards.of(name))]
            for bucket, key in places:
                for actor in buckets[bucket].actors:
                    plus, minus, _ = actor.tables
                    if key in plus.total:
                        more, waiting = snapshot.lacks(actor.owner, plus, key)
                        value, pending = value + more, pending + waiting
                        largest = max(largest, plus.total[key])
                    if key in minus.total:
                        more, waiting = snapshot.lacks(actor.owner, minus, key)
                        value, pending = value - more, pending - waiting
            if snapshot.excess:
                value -= snapshot.twice(buckets)
        merged = snapshot.value = made_value(value, snapshot.as_of, pending)
        # Where a slot is nearly full, what waits in the buffer may not fit: each read looks whether it does.
        snapshot.epoch = -1 if largest > NEARLY_FULL else router.epoch
        return merged


def forget_oldest(kept: dict[bytes, T], most: int) -> None:
    """No more than ``most`` are kept, those that were entered last."""
    if len(kept) > most:
        for oldest in list(islice(kept, len(kept) - most)):
            del kept[oldest]
