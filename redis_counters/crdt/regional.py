"""A shard as its peers see it: one entry for each region and dot, under each a floor, all merged by maximum.

A region is one replica for each key that it had (its dot names the creation of the key): so a region that lost a key,
and counts again, goes on in another entry, and is not masked by what the old one had come to. What an exchange carries
is such a state, as one line of text: ``K EXPIRY REGION/DOT,P,N,FP,FN ...``, trailing ``,0`` left out, ordered by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from redis_counters.crdt.gcounter import GCounter
from redis_counters.crdt.pncounter import PNCounter
from redis_counters.crdt.resettable import ResettableCounter
from redis_counters.crdt.shard_fields import Entry, count_of, entries_in, entries_of_text, text_of_entry

__all__ = ["RegionalShard", "as_text", "parse_fields", "parse_text"]


@dataclass(frozen=True, slots=True)
class RegionalShard:
    """Entries by ``REGION/DOT``, which are the actors of a resettable counter; the number of shards; the expiry.

    ``shards``: 0 if it does not say, as in every shard but the first. ``expiry``: epoch milliseconds, 0 for never.

    Cost: every operation is O(entries). Raises: as `PNCounter`.
    Source: a product of lattices, as `ResettableCounter`.
    """

    counts: ResettableCounter = field(default_factory=ResettableCounter)
    shards: int = 0
    expiry: int = 0

    @classmethod
    def bottom(cls) -> RegionalShard:
        """Return the state of a key that does not exist."""
        return cls()

    @property
    def value(self) -> int:
        """The counts of all regions that no reset has seen, as far as this state knows."""
        return self.counts.value

    def values(self) -> dict[bytes, int]:
        """Return each region's part of the value."""
        found: dict[bytes, int] = {}
        for place in self.places():
            region = place[: place.index(b"/")]
            plus, minus, floor_plus, floor_minus = self.entry(place)
            found[region] = found.get(region, 0) + plus - floor_plus - minus + floor_minus
        return found

    def places(self) -> list[bytes]:
        """Return the entries' names, in order."""
        totals, floors = self.counts.totals, self.counts.floors
        return sorted({*totals.plus.slots, *totals.minus.slots, *floors.plus.slots, *floors.minus.slots})

    def entry(self, place: bytes) -> Entry:
        """Return an entry's increments, decrements, and the floors under the two."""
        totals, floors = self.counts.totals, self.counts.floors
        return [half.slots.get(place, 0) for half in (totals.plus, totals.minus, floors.plus, floors.minus)]

    def increment(self, place: bytes, amount: int = 1) -> RegionalShard:
        """Return the state with a higher total of that entry."""
        return replace(self, counts=self.counts.increment(place, amount))

    def decrement(self, place: bytes, amount: int = 1) -> RegionalShard:
        """Return the state with a higher total of decrements of that entry."""
        return replace(self, counts=self.counts.decrement(place, amount))

    def increment_delta(self, place: bytes, amount: int = 1) -> RegionalShard:
        """Return only what `increment` would change."""
        return RegionalShard(self.counts.increment_delta(place, amount))

    def decrement_delta(self, place: bytes, amount: int = 1) -> RegionalShard:
        """Return only what `decrement` would change."""
        return RegionalShard(self.counts.decrement_delta(place, amount))

    def reset(self) -> RegionalShard:
        """Return the state with every floor at its total: the value is 0. Idempotent."""
        return replace(self, counts=self.counts.reset())

    def without(self, region: bytes) -> RegionalShard:
        """Return what an exchange sends to a region: no entries of its own, but those that a reset has seen."""
        places = [p for p in self.places() if not p.startswith(region + b"/") or any(self.entry(p)[2:])]
        return replace(self, counts=_counts({place: self.entry(place) for place in places}))

    def merge(self, other: RegionalShard, /) -> RegionalShard:
        """Return the larger of each total and floor, of the number of shards and of the expiry."""
        return RegionalShard(
            self.counts.merge(other.counts), max(self.shards, other.shards), max(self.expiry, other.expiry)
        )

    def __le__(self, other: RegionalShard, /) -> bool:
        """True if nothing in it is above the other's."""
        return self.counts <= other.counts and self.shards <= other.shards and self.expiry <= other.expiry

    def decompose(self) -> Iterator[RegionalShard]:
        """Yield one state for each total, each floor, the number of shards and the expiry."""
        yield from (RegionalShard(part) for part in self.counts.decompose())
        if self.shards:
            yield RegionalShard(shards=self.shards)
        if self.expiry:
            yield RegionalShard(expiry=self.expiry)


def parse_fields(fields: Mapping[bytes, bytes], region: bytes = b"", expiry: int = 0) -> RegionalShard:
    """Return what a shard's fields are to its peers; ``region``: the name of the region that they are of.

    Raises: ValueError, naming the field, for a count that is not a decimal.
    """
    entries = entries_in(fields.items())
    named = {region + place if place.startswith(b"/") else place: entry for place, entry in entries.items()}
    return RegionalShard(_counts(named), count_of(b"k", fields[b"k"]) if b"k" in fields else 0, expiry)


def parse_text(text: bytes) -> RegionalShard:
    """Return the state that a canonical text says; empty: there is no such key. Raises: ValueError."""
    shards, expiry, entries = entries_of_text(text)
    return RegionalShard(_counts(entries), shards, expiry)


def as_text(state: RegionalShard) -> bytes:
    """Return the canonical text; equal states have equal texts."""
    entries = [text_of_entry(place, state.entry(place)) for place in state.places()]
    return b" ".join([b"%d %d" % (state.shards, state.expiry), *entries])


def _counts(entries: Mapping[bytes, Entry]) -> ResettableCounter:
    halves = [GCounter({place: entry[i] for place, entry in entries.items()}) for i in range(4)]
    return ResettableCounter(PNCounter(*halves[:2]), PNCounter(*halves[2:]))
