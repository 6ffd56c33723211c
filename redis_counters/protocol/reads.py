"""The read side of a client: snapshots of Redis, a cache of them, and their merge with what this process counted.

A value is the snapshot, with this process's own slots raised to its own totals: the process is a replica too, so it
reads its own writes at once (Almeida & Baquero, Scalable Eventually Consistent Counters, section 3: a value is never
above what was issued, and never less than the own increments since the last read).
Sans-I/O: generators yield lists of commands and are given the lists of their answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from redis_counters.crdt.slotmap import tally
from redis_counters.errors import WrongType
from redis_counters.protocol.commands import Command, ErrorReply, Script, hgetall
from redis_counters.protocol.pump import look_up_namespace, settled_keys
from redis_counters.protocol.replies import BadReply
from redis_counters.protocol.slots import Kind
from redis_counters.protocol.values import CounterValue, name_shown
from redis_counters.protocol.writer import Writer, error_for

MOST_CACHED = 10_000  # names; the oldest snapshots go first
MOST_KEYS = 500  # shards that one script reads

T = TypeVar("T")
Asks = Generator[list[Command], list[object], None]


@dataclass(slots=True)
class Snapshot:
    """What Redis held of a counter at one time, complete over its shards."""

    taken: float  # on the clock that ages are measured with
    as_of: float  # epoch seconds
    fresh_until: float = 0.0
    foreign: int = 0
    own: dict[bytes, dict[bytes, int]] = field(default_factory=dict)  # shard key -> own fields
    acknowledged: dict[tuple[bytes, bytes, Kind], int] = field(default_factory=dict)
    """(shard key, owner, kind) -> what was acknowledged of an own slot when the snapshot was asked for."""
    value: CounterValue | None = None  # the value last made of it,
    epoch: int = -1  # and the writer's epoch that this was made in


@dataclass(frozen=True, slots=True)
class Claim(Generic[T]):
    """What a reader gets: values, names to fetch, and whom to wait for before (then nothing is his to fetch)."""

    values: dict[bytes, CounterValue]
    missing: list[bytes]
    busy: T | None


class Reads:
    """Values by name. Not thread-safe: drivers lock."""

    def __init__(
        self,
        writer: Writer,
        clock: Callable[[], float],
        wall: Callable[[], float],
        chance: Callable[[], float],
    ) -> None:
        self.writer = writer
        self.clock = clock
        self.wall = wall
        self.chance = chance
        self.cache: dict[bytes, Snapshot] = {}
        self.fetching: dict[bytes, object] = {}
        self.snapshots = 0

    # -- from memory

    def cached(self, name: bytes, max_age: float | None) -> CounterValue | None:
        """Return the value if a snapshot not older than ``max_age`` seconds is at hand (None: as the option says)."""
        snapshot = self.cache.get(name)
        if snapshot is None or snapshot.taken <= self.writer.dropped_at:
            return None
        now = self.clock()
        if now >= snapshot.fresh_until if max_age is None else now - snapshot.taken >= max_age:
            return None
        return self.value(name, snapshot)

    def at_hand(self, name: bytes) -> CounterValue | None:
        """Return the cached value if it is fresh and nothing has changed since it was made. Needs no lock."""
        snapshot = self.cache.get(name)
        if (
            snapshot is not None
            and snapshot.epoch == self.writer.epoch
            and snapshot.fresh_until > self.clock()
            and not self.writer.buffer
        ):
            return snapshot.value
        return None

    def claim(self, names: Iterable[bytes], max_age: float | None, since: float, token: T) -> Claim[T]:
        """Return what is at hand, and what the caller has to fetch; that is his until `release`.

        Two fetches of a name at a time could not be put in order, and values would run backwards. So of what somebody
        fetches already, the last value will do if there is one; else the caller has to wait (`Claim.busy`) and to ask
        again. ``since`` is when he came: a fetch that began later answers even a caller who wants no cache.
        """
        self.writer.drain()
        values: dict[bytes, CounterValue] = {}
        missing: list[bytes] = []
        for name in dict.fromkeys(names):
            if max_age != 0:
                value = self.cached(name, max_age)
                if value is None and name in self.fetching:
                    value = self.last(name)
            else:
                value = self.cached(name, math.inf) if name in self.cache and self.cache[name].taken > since else None
            if value is None:
                missing.append(name)
            else:
                values[name] = value
        busy = next((self.fetching[name] for name in missing if name in self.fetching), None)
        if busy is None:
            self.fetching.update(dict.fromkeys(missing, token))
        return Claim(values, missing, cast("T | None", busy))

    def release(self, names: Iterable[bytes]) -> None:
        """The fetch is over, with or without success."""
        for name in names:
            self.fetching.pop(name, None)

    def last(self, name: bytes) -> CounterValue | None:
        """Return the value from the last snapshot, whatever its age, if there is a valid one."""
        return self.cached(name, float("inf"))

    def value(self, name: bytes, snapshot: Snapshot) -> CounterValue:
        """Return the snapshot's value, merged with what this process counted."""
        writer = self.writer
        if writer.buffer:
            writer.drain()
        if snapshot.epoch == writer.epoch and snapshot.value is not None:
            return snapshot.value
        value, pending = snapshot.foreign, 0
        if writer.keys is None:
            value += writer.early[0].get(name, 0) - writer.early[1].get(name, 0)
            pending = value - snapshot.foreign
        else:
            for own in snapshot.own.values():
                value += _sum(own)
            for shard in range(writer.shards.of(name)):
                bucket, key = writer.keys.shard_key(name, shard)
                own = snapshot.own.get(key, {})
                for actor in writer.own(bucket):
                    for table, suffix, sign in ((actor.tables[0], b"+", 1), (actor.tables[1], b"-", -1)):
                        total = table.total.get(key)
                        if total is None:
                            continue
                        pending += sign * (total - table.acknowledged.get(key, 0))
                        slot = own.get(actor.id + suffix)
                        if slot is None:  # deleted or folded, as far as it was acknowledged before we looked
                            slot = min(total, snapshot.acknowledged.get((key, actor.owner, table.kind), 0))
                        if total > slot:
                            value += sign * (total - slot)
        snapshot.value = CounterValue(value, snapshot.as_of, pending)
        snapshot.epoch = writer.epoch
        return snapshot.value

    # -- from Redis

    def fetch(self, names: Iterable[bytes], found: dict[bytes, Snapshot]) -> Asks:
        """Fill ``found`` with a new snapshot per name; in one round trip, as long as no number of shards has grown.

        No shard is missed: every writer publishes a larger number in shard 0 before it uses it, and shard 0 is read
        not later than the others; where it tells of more, the new ones are read too.
        """
        writer = self.writer
        for name in names:
            now, age = self.clock(), writer.settings.max_age
            # Up to a tenth less, by chance, so that processes do not refresh in step.
            found[name] = Snapshot(now, self.wall(), now + age * (1 - 0.1 * self.chance()))
        if writer.keys is None:
            (raw,) = yield [look_up_namespace(writer.settings)]
            self.settle(raw)
        want: list[tuple[bytes, int]] = []
        if writer.keys is not None:  # else nothing has ever been counted
            want = [(name, shard) for name in found for shard in range(writer.shards.of(name))]
        while want:
            want = yield from self._fetch_shards(want, found)
        for name, snapshot in found.items():
            self._keep(name, snapshot)
        self.snapshots += len(found)

    def settle(self, raw: object) -> bool:
        """The buckets are known, from the namespace's record; False if there is none, so nothing has been counted."""
        values = _list(raw)
        if None in values:
            return False
        self.writer.settle(settled_keys(values, self.writer.settings), self.clock())
        return True

    def _fetch_shards(
        self, want: list[tuple[bytes, int]], found: dict[bytes, Snapshot]
    ) -> Generator[list[Command], list[object], list[tuple[bytes, int]]]:
        writer = self.writer
        assert writer.keys is not None
        placed = [(name, shard, *writer.keys.shard_key(name, shard)) for name, shard in want]
        for name, _shard, bucket, key in placed:
            for actor in writer.own(bucket):
                for table in actor.tables[:2]:
                    acknowledged = table.acknowledged.get(key)
                    if acknowledged:
                        found[name].acknowledged[key, actor.owner, table.kind] = acknowledged
        keys = [key for _name, _shard, _bucket, key in placed]
        if len(keys) == 1:
            maps = yield [hgetall(keys[0])]
        else:
            commands = [
                Command(Script.SLOTS_READ, keys[start : start + MOST_KEYS]) for start in range(0, len(keys), MOST_KEYS)
            ]
            maps = [text for texts in (yield commands) for text in _list(texts)]
        more: list[tuple[bytes, int]] = []
        for (name, shard, bucket, key), raw in zip(placed, maps, strict=True):
            own = [actor.id for actor in writer.own(bucket) if actor.id]
            try:
                counted = tally(fields_of(raw, name), own)
            except ValueError as error:
                raise WrongType(f"counter {name_shown(name)!r}: {error}", counter=name) from None
            found[name].foreign += counted.foreign
            if counted.own:
                found[name].own[key] = counted.own
            known = writer.shards.of(name)
            if shard == 0 and counted.shards > known:
                writer.shards.learn(name, counted.shards)
                more.extend((name, extra) for extra in range(known, counted.shards))
        return more

    def _keep(self, name: bytes, snapshot: Snapshot) -> None:
        cache = self.cache
        cache.pop(name, None)
        cache[name] = snapshot
        while len(cache) > MOST_CACHED:
            del cache[next(iter(cache))]


def _sum(own: dict[bytes, int]) -> int:
    """Return what own fields count: slots less their floors, signed."""
    value = 0
    for name, count in own.items():
        sign = 1 if name.endswith(b"+") else -1
        value += -sign * count if name.startswith(b"~") else sign * count
    return value


def _list(raw: object) -> list[object]:
    if isinstance(raw, ErrorReply):
        raise error_for(raw, None)
    if not isinstance(raw, list):
        raise BadReply(f"expected a list, got {type(raw).__name__}")
    return raw


def fields_of(raw: object, name: bytes) -> dict[bytes, bytes]:
    """Return the fields of a hash, from a map (RESP3), a flat list (RESP2) or the text of slots_read."""
    if isinstance(raw, bytes) and raw.startswith(b"!"):
        raw = ErrorReply(raw[1:].decode("utf-8", "replace"))
    if isinstance(raw, ErrorReply):
        if raw.code == "WRONGTYPE":
            raise WrongType(f"counter {name_shown(name)!r}: {raw.text}", counter=name)
        raise error_for(raw, None)
    if isinstance(raw, dict):
        return raw
    if isinstance(raw, bytes):
        parts: list[bytes] = raw.split(b" ") if raw else []
    elif isinstance(raw, list):
        parts = raw
    else:
        raise BadReply(f"expected a map, got {type(raw).__name__}")
    return dict(zip(parts[::2], parts[1::2], strict=True))
