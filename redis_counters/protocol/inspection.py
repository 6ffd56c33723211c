"""A counter as Redis holds it, for people: shards, slots, actors."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from redis_counters.crdt.slotmap import SlotMap, parse
from redis_counters.errors import WrongType
from redis_counters.protocol.answers import list_of
from redis_counters.protocol.commands import Command, hgetall, hmget
from redis_counters.protocol.namespace import look_up_namespace
from redis_counters.protocol.reads import Reads
from redis_counters.protocol.registry import is_actor, record_of
from redis_counters.protocol.shard_fields import pairs_of
from redis_counters.protocol.shards import check_told
from redis_counters.protocol.values import Name, name_bytes, name_shown


@dataclass(frozen=True, slots=True)
class ShardView:
    """One shard of a counter as Redis holds it."""

    shard: int
    bucket: int
    key: bytes
    map: SlotMap


@dataclass(frozen=True, slots=True)
class ActorView:
    """An actor as its bucket's registry holds it.

    ``state``: open, closed, folded, gone (no record), unreadable (the record is none of ours), or seed (no actor).
    """

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


def inspect(reads: Reads, name: Name) -> Generator[list[Command], list[object], Inspection]:
    """Return what Redis holds of a counter. Cost: up to 2 round trips per shard and one more; O(slots)."""
    raw_name, writer = name_bytes(name), reads.writer
    if writer.keys is None:
        (raw,) = yield [look_up_namespace(writer.settings)]
        reads.settle(raw)
    keys = writer.presumed_keys
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
            records = list_of(raw, len(ids))
            actors.update((id, _actor_view(id, record)) for id, record in zip(ids, records, strict=True))
    return Inspection(name_shown(raw_name), len(maps), sum(m.value for m in maps), parts, actors)


def _slot_map(raw: object, name: bytes) -> SlotMap:
    try:
        found = parse(dict(pairs_of(raw, name)))
        check_told(found.shards)
        return found
    except ValueError as error:
        raise WrongType(f"counter {name_shown(name)!r}: {error}", counter=name) from None


def _actor_view(actor: bytes, record: object) -> ActorView:
    if not is_actor(actor):
        return ActorView(actor, "seed", 0, 0, "")
    if record is None:
        return ActorView(actor, "gone", 0, 0, "")
    known = record_of(actor, record)
    if known is None:
        return ActorView(actor, "unreadable", 0, 0, "")
    return ActorView(actor, known.word, known.seq, known.seen, known.display.decode("utf-8", "replace"))
