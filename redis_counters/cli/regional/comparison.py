"""The states of all regions compared, a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from redis_counters.cli.client import driven
from redis_counters.cli.regional.differences import Gap, Known, closed, gaps, state_of
from redis_counters.cli.regional.facts import Facts, evicted_of
from redis_counters.drivers.transport import Asking
from redis_counters.protocol.exchange.change_index import ask_for_notes, noted_in
from redis_counters.protocol.exchange.joining import walk_over
from redis_counters.protocol.wire.answers import list_of
from redis_counters.protocol.wire.commands import Command, ErrorReply, Script, pieces
from redis_counters.protocol.wire.keys import KeySpace, name_of, shard_of
from redis_counters.protocol.wire.refusals import error_for
from redis_counters.protocol.wire.registry import milliseconds_of, scanned, time

PAGE = 250  # shards that one script reads
_SCANNED = 1_000  # members of one answer
MAX_GAPS = 100_000  # shards with gaps that are kept


class Shard(NamedTuple):
    """A shard of a counter."""

    bucket: int
    number: int
    name: bytes

    @property
    def member(self) -> bytes:
        """Its member of the change index."""
        return b"%d:%b" % (self.number, self.name)


class Region(NamedTuple):
    """A region that is compared."""

    name: str
    server: Asking
    facts: Facts


@dataclass(slots=True)
class Comparison:
    """The result so far. ``gaps``: by shard; ``unindexed``: by region, keys that no exchange will find."""

    shards: int = 0
    buckets: int = 0
    gaps: dict[Shard, list[Gap]] = field(default_factory=dict)
    unindexed: dict[str, list[Shard]] = field(default_factory=dict)
    more: int = 0  # gaps that were not kept


class Verifier:
    """Compares regions. ``show`` is called after each page. Cost: every shard is read once in every region."""

    def __init__(self, regions: Sequence[Region], keys: KeySpace, show: Callable[[Comparison], object]) -> None:
        self._regions, self._keys, self._show = regions, keys, show
        self._evicted = evicted_of({region.name: region.facts for region in regions})
        self._names = sorted({name for region in regions for name in (region.name, *region.facts.members)})
        self._now: dict[str, int] = {}  # by region: its server's clock, when texts were last read
        self.found = Comparison()

    def compare(self) -> None:
        """Compare every shard that some region's change index has, or that lies in some region."""
        for bucket in range(self._keys.buckets):
            known = {region.name: self._indexed(region, bucket) for region in self._regions}
            for page in pieces(sorted(set().union(*known.values())), PAGE):
                self._compare(page, known)
                self._show(self.found)
            self.found.buckets += 1
        for region in self._regions:
            self.found.unindexed[region.name] = self._unindexed(region)
        loose = sorted({shard for shards in self.found.unindexed.values() for shard in shards})
        for bucket in range(self._keys.buckets):
            for page in pieces([shard for shard in loose if shard.bucket == bucket], PAGE):
                self._compare(page, {})

    def look_again(self) -> None:
        """Read again the shards that differed, and remove the gaps that have closed."""
        waiting = self.found.gaps
        for bucket in sorted({shard.bucket for shard in waiting}):
            for page in pieces([shard for shard in waiting if shard.bucket == bucket], PAGE):
                texts = self._texts(page)
                for place, shard in enumerate(page):
                    left = [
                        gap
                        for gap in waiting[shard]
                        if not closed(gap, state_of(texts[gap.region][place]), self._now[gap.region])
                    ]
                    if left:
                        waiting[shard] = left
                    else:
                        del waiting[shard]

    def _compare(self, page: Sequence[Shard], known: Mapping[str, set[Shard]]) -> None:
        texts = self._texts(page)
        self.found.shards += len(page)
        differing: dict[Shard, dict[str, bytes]] = {}
        for place, shard in enumerate(page):
            here = {name: states[place] for name, states in texts.items()}
            if len(set(here.values())) > 1 or b"!" in next(iter(here.values())):  # the text is canonical
                differing[shard] = here
        if not differing:
            return
        pulled = self._pulled(list(differing))
        for shard, here in differing.items():
            remembered = frozenset(name for name, shards in known.items() if shard in shards)
            facts = Known(self._evicted, remembered, frozenset(pulled[shard]), dict(self._now))
            if found := list(gaps({name: state_of(text) for name, text in here.items()}, facts)):
                if len(self.found.gaps) < MAX_GAPS:
                    self.found.gaps[shard] = found
                else:
                    self.found.more += len(found)

    def _texts(self, page: Sequence[Shard]) -> dict[str, list[bytes]]:
        """Return the states of shards of one bucket, by region."""
        index = self._keys.index(page[0].bucket)
        keys = [index, *(self._keys.shard_key(shard.name, shard.number)[1] for shard in page)]
        found = {}
        for region in self._regions:
            reading = Command(Script.ENTRIES_READ, keys, (region.name.encode(), b"", 1))
            raw, at = region.server.ask([reading, time(self._keys.registries[page[0].bucket])])
            self._now[region.name] = milliseconds_of(at)
            if isinstance(raw, ErrorReply):
                raise error_for(raw, Script.ENTRIES_READ)
            texts = list_of(raw, len(page))
            found[region.name] = [text if isinstance(text, bytes) else str(text).encode() for text in texts]
        return found

    def _pulled(self, shards: Sequence[Shard]) -> dict[Shard, set[tuple[str, str]]]:
        """Return by shard each (region, owner) where the region's mark covers the owner's last change of it."""
        found: dict[Shard, set[tuple[str, str]]] = {shard: set() for shard in shards}
        bucket = shards[0].bucket
        for owner in self._regions:
            stamps = self._stamps(owner, shards)
            for region in self._regions:
                if region is owner or not region.facts.buckets or not owner.facts.buckets:
                    continue
                covered = owner.facts.buckets[bucket].covered(region.facts.buckets[bucket].marks.get(owner.name))
                for shard, stamp in stamps.items():
                    if covered is not None and covered >= stamp:
                        found[shard].add((region.name, owner.name))
        return found

    def _stamps(self, owner: Region, shards: Sequence[Shard]) -> dict[Shard, int]:
        """Return the versions of the last changes there, of shards whose last change the peers can have received.

        (Their texts were read before: a change in these is still noted, or entered by now.)
        """
        noted = self._noted(owner, shards[0].bucket)
        members = [shard.member for shard in shards]
        (raw,) = owner.server.ask([Command(None, (self._keys.index(shards[0].bucket),), members, b"ZMSCORE")])
        scores = zip(shards, list_of(raw, len(shards)), strict=True)
        return {s: int(float(score)) for s, score in scores if s not in noted and isinstance(score, (bytes, float))}

    def _indexed(self, region: Region, bucket: int) -> set[Shard]:
        """Return the shards that a region remembers to have had."""
        noted = self._noted(region, bucket)  # first: what is entered meanwhile may be missed below
        return noted.union(*(self._members(region, bucket, index) for index in self._indexes(region, bucket)))

    def _noted(self, region: Region, bucket: int) -> set[Shard]:
        """Return the shards with a change that is not in the change index yet; a flagged one was not sent either."""
        (raw,) = region.server.ask([ask_for_notes(self._keys.index(bucket))])
        return {shard for name in noted_in(raw) if (shard := _shard(bucket, name)) is not None}

    def _indexes(self, region: Region, bucket: int) -> list[bytes]:
        """Return the keys of its indexes: its own first, then one for each peer."""
        peers = [name for name in self._names if name != region.name]
        return [self._keys.index(bucket), *(self._keys.merged(bucket, name.encode()) for name in peers)]

    def _members(self, region: Region, bucket: int, index: bytes) -> Iterator[Shard]:
        """Yield the members with a stamp: one without stands for no shard (region_join), nor does a note."""
        cursor, begun = b"0", False
        while not begun or cursor != b"0":
            begun = True
            (raw,) = region.server.ask([Command(None, (index,), (cursor, b"COUNT", _SCANNED), b"ZSCAN")])
            if (found := scanned(raw, fields=False)) is None:
                return
            cursor, page = found
            stamped = (member for member, score in zip(page[::2], page[1::2], strict=True) if score != b"0")
            yield from (shard for member in stamped if (shard := _shard(bucket, member)) is not None)

    def _unindexed(self, region: Region) -> list[Shard]:
        """Return the shards that lie in a region, and that no index of it has."""
        if region.facts.keys is None:
            return []
        lying: set[Shard] = set()

        def visit(found: dict[int, list[bytes]]) -> Generator[list[Command], list[object], None]:
            for bucket, keys in found.items():
                shards = [Shard(bucket, shard_of(key), name_of(key)) for key in keys]
                lying.update((yield from self._unstamped(region, shards)))

        driven(region.server, walk_over(self._keys, list(range(self._keys.buckets)), visit))
        for bucket in sorted({shard.bucket for shard in lying}):
            lying -= self._noted(region, bucket)
            for page in pieces(sorted(shard for shard in lying if shard.bucket == bucket), PAGE):
                lying.difference_update(page)
                lying.update(driven(region.server, self._unstamped(region, page)))  # not entered meanwhile either
        return sorted(lying)

    def _unstamped(
        self, region: Region, shards: Sequence[Shard]
    ) -> Generator[list[Command], list[object], list[Shard]]:
        """Return which of these shards of one bucket no index has by name."""
        members = [shard.member for shard in shards]
        answers = yield [Command(None, (x,), members, b"ZMSCORE") for x in self._indexes(region, shards[0].bucket)]
        scores = zip(*(list_of(raw, len(members)) for raw in answers), strict=True)
        return [shard for shard, each in zip(shards, scores, strict=True) if all(score is None for score in each)]


def _shard(bucket: int, member: object) -> Shard | None:
    number, colon, name = member.partition(b":") if isinstance(member, bytes) else (b"", b"", b"")
    return Shard(bucket, int(number), name) if colon and number.isdigit() else None
