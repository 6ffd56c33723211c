"""What a region's Redis says of the exchange: who its peers are, what it has of them, since when."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field

from redis_counters.errors import CounterError
from redis_counters.protocol.answers import list_of
from redis_counters.protocol.commands import Command, hgetall, hmget
from redis_counters.protocol.exchange.marks import Mark, field_of, mark_of, seen_field
from redis_counters.protocol.exchange.members import EVICTED, look
from redis_counters.protocol.keys import KeySpace, namespace_bytes
from redis_counters.protocol.registry import time
from redis_counters.protocol.shard_fields import pairs_of


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket of one region. ``version``: of its last change; None if changes are not stamped (not joined)."""

    generation: bytes
    version: int | None
    marks: Mapping[str, Mark] = field(default_factory=dict)
    looked: Mapping[str, int] = field(default_factory=dict)  # by peer, epoch milliseconds of the own server


@dataclass(frozen=True, slots=True)
class Facts:
    """A region. ``members``: state by name, the own one too; ``now``: its server's time, epoch milliseconds."""

    region: str
    keys: KeySpace | None
    members: Mapping[str, str] = field(default_factory=dict)
    now: int = 0
    buckets: tuple[Bucket, ...] = ()

    @property
    def joined(self) -> bool:
        """Every bucket's changes are stamped."""
        return bool(self.buckets) and all(bucket.version is not None for bucket in self.buckets)

    def has_all(self, source: Facts, bucket: int) -> bool:
        """Whether nothing has changed there that is not here yet."""
        if len(source.buckets) != len(self.buckets):
            return False  # they exchange nothing
        there, mark = source.buckets[bucket], self.buckets[bucket].marks.get(source.region)
        if mark is None or there.version is None:
            return False
        return mark.incarnation.startswith(there.generation) and mark.version >= there.version

    def lag(self, peer: str, source: Facts | None) -> float | None:
        """How many seconds ago it last had, in every bucket, all that a peer had; None: never.

        ``source``: the peer, if it is known what it has. Without it, as recorded: where nothing changes that is every
        few minutes.
        """
        times = []
        for number, bucket in enumerate(self.buckets):
            up_to_date = source is not None and source.buckets and self.has_all(source, number)
            times.append(self.now if up_to_date else bucket.looked.get(peer))
        known = [at for at in times if at is not None]
        return max(0, self.now - min(known)) / 1000 if known and len(known) == len(times) else None


def facts_of(region: str, namespace: str) -> Generator[list[Command], list[object], Facts]:
    """Return what is there of a region. Cost: 3 round trips.

    Raises: CounterError, where the namespace belongs to another region, or Redis refuses.
    """
    found = yield from look(namespace_bytes(namespace), region.encode())
    keys = found.keys
    if keys is None:
        return Facts(region, None)
    (raw,) = yield [time(keys.registries[0])]
    seconds, micros = (int(str(part, "ascii") if isinstance(part, bytes) else str(part)) for part in list_of(raw, 2))
    asked = [hmget(registry, (b"g", b"v")) for registry in keys.registries]
    asked += [hgetall(keys.marks(bucket)) for bucket in range(keys.buckets)]
    answers = yield asked
    registries, marks = answers[: keys.buckets], answers[keys.buckets :]
    buckets = tuple(_bucket(list_of(a, 2), _fields(b)) for a, b in zip(registries, marks, strict=True))
    members = {_text(name): _text(member.state) for name, member in found.members.items()}
    return Facts(region, keys, members, seconds * 1000 + micros // 1000, buckets)


def evicted_of(all_facts: Mapping[str, Facts]) -> frozenset[str]:
    """Return whom some region counts as evicted."""
    states = ((name, state) for facts in all_facts.values() for name, state in facts.members.items())
    return frozenset(name for name, state in states if state == EVICTED.decode())


def check_alike(all_facts: Mapping[str, Facts]) -> None:
    """Raises: CounterError, if regions have different numbers of buckets: then no exchange is possible."""
    buckets = {name: facts.keys.buckets for name, facts in all_facts.items() if facts.keys is not None}
    if len(set(buckets.values())) > 1:
        told = ", ".join(f"{name} has {count}" for name, count in buckets.items())
        raise CounterError(f"regions of one count have the same number of buckets: {told}")


def _bucket(registry: list[object], marks: Mapping[bytes, bytes]) -> Bucket:
    generation, version = registry
    found, looked = dict[str, Mark](), dict[str, int]()
    for name, text in marks.items():
        if name.startswith(field_of(b"")) and (mark := mark_of(text)) is not None:
            found[_text(name[len(field_of(b"")) :])] = mark
        elif name.startswith(seen_field(b"")) and text.isdigit():
            looked[_text(name[len(seen_field(b"")) :])] = int(text)
    known = isinstance(version, bytes) and version.isdigit()
    return Bucket(generation if isinstance(generation, bytes) else b"", int(version) if known else None, found, looked)  # type: ignore[call-overload]


def _fields(raw: object) -> dict[bytes, bytes]:
    if isinstance(raw, (list, dict)) and not raw:
        return {}
    if isinstance(raw, dict):
        return {name: value for name, value in raw.items() if isinstance(name, bytes) and isinstance(value, bytes)}
    return dict(pairs_of(list_of(raw), b""))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
