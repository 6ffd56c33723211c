"""A counter as Redis holds it, for people: shards, slots, actors."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

from redis_counters.crdt.regional import RegionalShard, parse_fields
from redis_counters.crdt.shard_copies import Copies, beyond, copies_in, is_copy
from redis_counters.crdt.shard_fields import entries_in
from redis_counters.crdt.slotmap import SlotMap, parse
from redis_counters.errors import Refused, reworded
from redis_counters.protocol.read.fetch import Reads
from redis_counters.protocol.wire.answers import list_of
from redis_counters.protocol.wire.commands import Command, ErrorReply, Script, hgetall, hmget
from redis_counters.protocol.wire.keys import KeySpace, meta_key, shard_of
from redis_counters.protocol.wire.marks import seen_field
from redis_counters.protocol.wire.namespace import look_up_namespace
from redis_counters.protocol.wire.refusals import MAX_NAMED, of_shard
from redis_counters.protocol.wire.registry import is_actor, milliseconds_of, record_of, time
from redis_counters.protocol.wire.shard_counts import check_published
from redis_counters.protocol.wire.shard_fields import pairs_of
from redis_counters.protocol.wire.values import Name, name_bytes, name_shown


@dataclass(frozen=True, slots=True)
class ShardView:
    """One shard of a counter as Redis holds it.

    ``map``: what was counted here. ``entries``: by region and dot, the totals and the floors under them, as `reset`
    and exchanges between regions made them; the own region's name is empty. Without any of them it has one entry.
    """

    shard: int
    bucket: int
    key: bytes
    map: SlotMap
    entries: RegionalShard

    @property
    def value(self) -> int:
        """Return what this shard contributes to its counter: its own, that of its peers, less what a reset has seen."""
        return self.entries.value


@dataclass(frozen=True, slots=True)
class ActorView:
    """An actor as its bucket's registry holds it.

    ``state``: open, closed, folded, gone (no record), unreadable (the record is none of ours), or, of what is no actor,
    seed, and moved (what another shard held). ``last_seen``: epoch seconds by its server's clock; ``age``: how many
    seconds ago that was by the same clock, None where that is not known.
    """

    id: bytes
    state: str
    seq: int
    last_seen: int
    display: str
    age: int | None = None


@dataclass(frozen=True, slots=True)
class RegionView:
    """The counts of one region, as this one has them.

    ``value``: its part of the counter's value. ``as_of``: epoch seconds, by the server's clock, of when an exchange had
    last brought here all that the region had, in every bucket of the counter; None for the region asked, whose part is
    that of now, and where no exchange has recorded it. ``age``: how many seconds ago that was, by the same clock.
    """

    value: int
    as_of: float | None
    age: float | None = None


@dataclass(frozen=True, slots=True)
class Inspection:
    """A counter as Redis holds it, without what this process has not flushed yet."""

    name: str | bytes
    shards: int
    value: int
    parts: tuple[ShardView, ...]
    actors: dict[bytes, ActorView]
    regions: dict[str, RegionView] = field(default_factory=dict)


def inspect(reads: Reads, name: Name) -> Generator[list[Command], list[object], Inspection]:
    """Return what Redis holds of a counter. Cost: up to 2 round trips per shard and two more; O(slots).

    A shard that is refused does not keep the others from being shown: the error has them.
    """
    raw_name, writer = name_bytes(name), reads.writer
    if writer.router.keys is None:
        (raw,) = yield [look_up_namespace(writer.settings)]
        reads.settle(raw)
    keys = writer.router.presumed_keys
    parts: tuple[ShardView, ...] = ()
    refused: list[Refused] = []
    copies: Copies = {}
    value = shard = 0
    shards = max(1, writer.router.shards.of(raw_name))
    while shard < shards:
        bucket, key = keys.shard_key(raw_name, shard)
        (raw,) = yield [_whole(key)]
        try:
            if shard:
                (raw,) = list_of(raw, 1)
            fields = dict(pairs_of(raw, raw_name))
            found = parse(fields)
            check_published(found.shards)
            if not shard:
                copies = copies_in(fields.items())
                shards = max(shards, found.shards)
            value += beyond(entries_in(fields.items()), shard, copies)
            parts += (ShardView(shard, bucket, key, found, parse_fields(fields)),)
        except (Refused, ValueError) as error:
            refused.append(of_shard(key, error))
        shard += 1
    actors: dict[bytes, ActorView] = {}
    for part in parts:
        ids = sorted(part.map.actors - actors.keys())
        if ids:
            registry = keys.registries[part.bucket]
            raw, at = yield [hmget(registry, ids), time(registry)]
            records, now = list_of(raw, len(ids)), _seconds(at)
            actors.update((id, _actor_view(id, record, now)) for id, record in zip(ids, records, strict=True))
    regions = yield from _regions(keys, parts)
    inspection = Inspection(name_shown(raw_name), shards, value, parts, actors, regions)
    if refused:
        first = refused[0]
        reported = reworded(first, "; ".join(map(str, refused[:MAX_NAMED])))
        reported.keys = tuple(key for each in refused for key in each.keys)
        reported.inspection = inspection if parts else None
        raise reported
    return inspection


def _regions(
    keys: KeySpace, parts: tuple[ShardView, ...]
) -> Generator[list[Command], list[object], dict[str, RegionView]]:
    """Return what each region counted; nothing where only this one did. Cost: one round trip, or none."""
    values: dict[bytes, int] = {}
    for part in parts:
        for region, value in part.entries.values().items():
            values[region] = values.get(region, 0) + value
    others = sorted(values.keys() - {b""})
    if not others:
        return {}
    marks = [keys.marks(bucket) for bucket in sorted({part.bucket for part in parts})]
    fields = [seen_field(region) for region in others]
    asked = [hmget(meta_key(keys.namespace), (b"region",)), time(marks[0])]
    meta, at, *answers = yield [*asked, *(hmget(key, fields) for key in marks)]
    ((own,), now) = list_of(meta, 1), _seconds(at)
    found = {_shown(own if isinstance(own, bytes) else b""): RegionView(values.get(b"", 0), None)}
    for region, *times in zip(others, *(list_of(raw, len(fields)) for raw in answers), strict=True):
        known = [int(at) for at in times if isinstance(at, bytes) and at.isdigit()]
        as_of = min(known) / 1000 if len(known) == len(times) else None
        age = max(0.0, now - as_of) if now is not None and as_of is not None else None
        found[_shown(region)] = RegionView(values[region], as_of, age)
    return found


def _shown(region: bytes) -> str:
    return region.decode("utf-8", "replace")


def _seconds(raw: object) -> float | None:
    """Return the time out of an answer to `TIME`; None if it was denied."""
    return None if isinstance(raw, ErrorReply) else milliseconds_of(raw) / 1000


def _whole(key: bytes) -> Command:
    """Return the command that reads a shard; one that may be sealed is read by the script."""
    return Command(Script.SLOTS_READ, (key,)) if shard_of(key) else hgetall(key)


def _actor_view(actor: bytes, record: object, now: float | None) -> ActorView:
    if not is_actor(actor):
        return ActorView(actor, "moved" if is_copy(actor) else "seed", 0, 0, "")
    if record is None:
        return ActorView(actor, "gone", 0, 0, "")
    known = record_of(actor, record)
    if known is None:
        return ActorView(actor, "unreadable", 0, 0, "")
    age = max(0, int(now - known.seen)) if now is not None else None
    return ActorView(actor, known.word, known.seq, known.seen, known.display.decode("utf-8", "replace"), age)
