"""All of a client that decides: buffer, write side, read side. One object for both faces; drivers lock and act."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

from redis_counters.crdt.slotmap import INT64_MAX, SlotMap, parse
from redis_counters.errors import CounterError, Overflow, WrongType
from redis_counters.protocol.buffer import Buffer
from redis_counters.protocol.commands import Command, hgetall, hmget
from redis_counters.protocol.keys import KeySpace
from redis_counters.protocol.pump import Steps, flush_round, look_up_namespace
from redis_counters.protocol.reads import Reads, fields_of
from redis_counters.protocol.settings import Settings
from redis_counters.protocol.shards import check_shards
from redis_counters.protocol.stats import Stats
from redis_counters.protocol.values import Name, name_bytes, name_shown, signed_amount
from redis_counters.protocol.writer import Writer

SMALL = 2**31
"""Amounts up to this go into the buffer unseen; whether larger ones fit is checked at the call."""


@dataclass(frozen=True, slots=True)
class ShardView:
    """One shard of a counter as Redis holds it."""

    shard: int
    bucket: int
    key: bytes
    map: SlotMap


@dataclass(frozen=True, slots=True)
class ActorView:
    """An actor as its bucket's registry holds it; ``state``: open, closed, folded, or gone (no record)."""

    id: bytes
    state: str
    seq: int
    last_seen: int
    display: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """A counter as Redis holds it, without what this process has not flushed yet."""

    name: str | bytes
    shards: int
    value: int
    parts: tuple[ShardView, ...]
    actors: dict[bytes, ActorView]


class Core:
    """State of one client. Time, chance and identity come in as functions."""

    def __init__(
        self,
        settings: Settings,
        mint: Callable[[], str],
        clock: Callable[[], float],
        wall: Callable[[], float],
        chance: Callable[[], float],
    ) -> None:
        self.settings = settings
        self.mint = mint
        self.clock = clock
        self.wall = wall
        self.chance = chance
        self.buffer = Buffer()
        self.failures = 0
        self.last_error: str | None = None
        self.begin()

    def begin(self) -> None:
        """The client owns nothing and has a new identity: at the start, and in the child of a fork."""
        self.buffer.clear()
        self.writer = Writer(self.settings, self.buffer, self.mint)
        self.reads = Reads(self.writer, self.clock, self.wall, self.chance)

    # -- counting, where it is not the plain increment by one

    def add(self, name: Name, amount: int) -> bool:
        """The signed amount is in the buffer; False if it is so large that `add_large` has to see to it."""
        if -SMALL <= amount <= SMALL:
            if amount:
                self.buffer.amounts.append((name, amount))
            return True
        return False

    def add_large(self, name: Name, amount: int) -> None:
        """The amount is counted, or refused: Overflow, and nothing has changed."""
        raw = name_bytes(name)
        self.writer.drain()
        if abs(signed_amount(amount, name)) > self.writer.room(raw, amount):
            sort = "increments" if amount > 0 else "decrements"
            raise Overflow(
                f"counter {name_shown(raw)!r}: {abs(amount)} more {sort} would leave the range of a slot, "
                f"{INT64_MAX}; not counted",
                counter=raw,
            )
        self.buffer.amounts.append((raw, amount))
        self.writer.drain()

    def declare(self, name: bytes, shards: int | None) -> None:
        """The counter has at least that many shards."""
        if shards is not None:
            self.writer.shards.learn(name, check_shards("shards", shards))

    # -- flushing

    def round(self) -> Steps:
        """Return one round of flushing, to be driven."""
        return flush_round(self.writer, self.clock)

    def failed(self, error: CounterError) -> None:
        self.failures += 1
        self.last_error = str(error)

    def squeeze(self, name: Name, amount: int) -> bool:
        """With the buffer full: the amount is counted if its counter waits already, for that takes no more memory."""
        writer, raw = self.writer, name_bytes(name)
        writer.drain()
        if not writer.holds(raw) or abs(amount) > writer.room(raw, amount):
            return False
        self.buffer.amounts.append((raw, amount))
        writer.drain()
        return True

    def stats(self) -> Stats:
        """Return the figures at this time. Cost: O(buckets)."""
        writer = self.writer
        writer.drain()
        return Stats(
            accepted=writer.accepted,
            flushed=writer.flushed,
            flushes=writer.flushes,
            pending=writer.waiting(),
            slots=sum(actor.slots for actor in writer.actors()),
            snapshots=self.reads.snapshots,
            failures=self.failures,
            uncertain=writer.uncertain,
            last_error=self.last_error,
        )

    # -- looking at a counter

    def inspect(self, name: Name) -> Generator[list[Command], list[object], Inspection]:
        """Return what Redis holds of a counter. Cost: up to 2 round trips per shard and one more; O(slots)."""
        raw_name, writer = name_bytes(name), self.writer
        if writer.keys is None:
            (raw,) = yield [look_up_namespace(self.settings)]
            self.reads.settle(raw)
        keys = writer.keys or KeySpace(self.settings.namespace, self.settings.buckets)
        maps: list[SlotMap] = []
        while len(maps) < max([1, writer.shards.of(raw_name), *(m.shards for m in maps[:1])]):
            (raw,) = yield [hgetall(keys.shard_key(raw_name, len(maps))[1])]
            maps.append(_slot_map(raw, raw_name))
        parts = tuple(ShardView(i, *keys.shard_key(raw_name, i), m) for i, m in enumerate(maps))
        actors: dict[bytes, ActorView] = {}
        for part in parts:
            ids = sorted(part.map.actors - actors.keys())
            if ids:
                (raw,) = yield [hmget(keys.registries[part.bucket], ids)]
                records = raw if isinstance(raw, list) else [None] * len(ids)
                actors.update((id, _actor_view(id, record)) for id, record in zip(ids, records, strict=True))
        return Inspection(name_shown(raw_name), len(maps), sum(m.value for m in maps), parts, actors)


def _slot_map(raw: object, name: bytes) -> SlotMap:
    try:
        return parse(fields_of(raw, name))
    except ValueError as error:
        raise WrongType(f"counter {name_shown(name)!r}: {error}", counter=name) from None


def _actor_view(actor: bytes, record: object) -> ActorView:
    if not isinstance(record, bytes):
        return ActorView(actor, "gone", 0, 0, "")
    state, seq, seen, _owner, display = record.split(b" ", 4)
    word = {b"o": "open", b"c": "closed", b"f": "folded"}.get(state, "unknown")
    return ActorView(actor, word, int(seq), int(seen), display.decode("utf-8", "replace"))
