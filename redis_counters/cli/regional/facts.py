"""A region's own records of the exchange: its peers, the changes it has of them, and since when."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field

from redis_counters.errors import CounterError
from redis_counters.protocol.exchange.change_index import Moment, moments_in, waiting
from redis_counters.protocol.exchange.heartbeats import Beat, beats_in
from redis_counters.protocol.exchange.members import EVICTED, look
from redis_counters.protocol.wire.answers import list_of
from redis_counters.protocol.wire.commands import Command, hgetall, hmget
from redis_counters.protocol.wire.keys import KeySpace, namespace_bytes
from redis_counters.protocol.wire.marks import Mark, field_of, mark_of, seen_field
from redis_counters.protocol.wire.registry import milliseconds_of, time
from redis_counters.protocol.wire.shard_fields import pairs_of


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket of one region. ``version``: of its last change; None if changes are not stamped (not joined)."""

    generation: bytes
    version: int | None
    marks: Mapping[str, Mark] = field(default_factory=dict)
    moments: Sequence[Moment] = ()
    looked: Mapping[str, int] = field(default_factory=dict)  # by peer, epoch milliseconds of the own server

    def covered(self, mark: Mark | None) -> int | None:
        """Return the version up to which a region with this mark has its changes; None if it says nothing of it."""
        return mark.version if mark is not None and mark.incarnation.startswith(self.generation) else None


@dataclass(frozen=True, slots=True)
class Facts:
    """A region. ``members``: state by name, the own one too; ``now``: its server's time, epoch milliseconds."""

    region: str
    keys: KeySpace | None
    members: Mapping[str, str] = field(default_factory=dict)
    now: int = 0
    buckets: tuple[Bucket, ...] = ()
    beats: Sequence[Beat] = ()

    @property
    def joined(self) -> bool:
        """Every bucket's changes are stamped."""
        return bool(self.buckets) and all(bucket.version is not None for bucket in self.buckets)

    def lag(self, peer: str, source: Facts | None = None, behind: Sequence[int] = ()) -> float | None:
        """Return how many seconds the oldest change of a peer that is not here yet has waited; None: never exchanged.

        ``source``: the peer's facts; ``behind``: how many changes are lacking, in each bucket. Without these it is the
        time since the last look, as recorded: where nothing changes that is minutes.
        """
        lags = []
        for number, bucket in enumerate(self.buckets):
            looked = bucket.looked.get(peer)
            asked = None if looked is None else max(0, self.now - looked) / 1000
            mark = bucket.marks.get(peer)
            if mark is None:
                return None
            if source is None or len(source.buckets) != len(self.buckets) or not behind:
                lags.append(asked)
            elif behind[number]:
                there = source.buckets[number]
                lags.append(waiting(there.moments, there.covered(mark) or 0, source.now / 1000, asked))
            else:
                lags.append(0.0)
        known = [lag for lag in lags if lag is not None]
        return max(known) if known and len(known) == len(lags) else None

    def heartbeat(self, peer: str) -> Beat | None:
        """Return the last one of an exchange that brings the peer's changes here."""
        return next((beat for beat in self.beats if beat.source == peer.encode()), None)


def facts_of(region: str, namespace: str) -> Generator[list[Command], list[object], Facts]:
    """Return the facts of a region. Cost: 3 round trips.

    Raises: CounterError, where the namespace belongs to another region, or Redis refuses.
    """
    found = yield from look(namespace_bytes(namespace), region.encode())
    keys = found.keys
    if keys is None:
        return Facts(region, None)
    (raw,) = yield [time(keys.registries[0])]
    now = milliseconds_of(raw)
    asked = [hmget(registry, (b"g", b"v", b"h")) for registry in keys.registries]
    asked += [hgetall(keys.marks(bucket)) for bucket in range(keys.buckets)]
    answers = yield asked
    registries, marks = answers[: keys.buckets], answers[keys.buckets :]
    fields = [_fields(each) for each in marks]
    buckets = tuple(_bucket(list_of(a, 3), b) for a, b in zip(registries, fields, strict=True))
    members = {_text(name): _text(member.state) for name, member in found.members.items()}
    return Facts(region, keys, members, now, buckets, beats_in(fields[0]))


def evicted_of(all_facts: Mapping[str, Facts]) -> frozenset[str]:
    """Return the regions that some region has recorded as evicted."""
    evicted = EVICTED.decode()
    return frozenset(name for facts in all_facts.values() for name, state in facts.members.items() if state == evicted)


def check_alike(all_facts: Mapping[str, Facts]) -> None:
    """Raises: CounterError, if regions have different numbers of buckets: then no exchange is possible."""
    buckets = {name: facts.keys.buckets for name, facts in all_facts.items() if facts.keys is not None}
    if len(set(buckets.values())) > 1:
        counts = ", ".join(f"{name} has {count}" for name, count in buckets.items())
        raise CounterError(f"regions of one count have the same number of buckets: {counts}")


def _bucket(registry: list[object], marks: Mapping[bytes, bytes]) -> Bucket:
    generation, version, moments = registry
    found, looked = dict[str, Mark](), dict[str, int]()
    for name, text in marks.items():
        if name.startswith(field_of(b"")) and (mark := mark_of(text)) is not None:
            found[_text(name[len(field_of(b"")) :])] = mark
        elif name.startswith(seen_field(b"")) and text.isdigit():
            looked[_text(name[len(seen_field(b"")) :])] = int(text)
    known = int(version) if isinstance(version, bytes) and version.isdigit() else None
    return Bucket(generation if isinstance(generation, bytes) else b"", known, found, moments_in(moments), looked)


def _fields(raw: object) -> dict[bytes, bytes]:
    if isinstance(raw, (list, dict)) and not raw:
        return {}
    if isinstance(raw, dict):
        return {name: value for name, value in raw.items() if isinstance(name, bytes) and isinstance(value, bytes)}
    return dict(pairs_of(list_of(raw), b""))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
