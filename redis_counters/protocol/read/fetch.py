"""The read side of a client: snapshots fetched from Redis, complete over all shards of a counter.

Sans-I/O: generators yield lists of commands and are given the lists of their answers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

from redis_counters.crdt.shard_copies import copies_in
from redis_counters.crdt.shard_fields import sum_fields
from redis_counters.errors import Refused
from redis_counters.protocol.read.cache import ReadCache
from redis_counters.protocol.read.pages import PageRead, Want
from redis_counters.protocol.read.snapshot import Doubts, Place, SeenRecords, acknowledged
from redis_counters.protocol.read.sums import ParsedCache, added_up
from redis_counters.protocol.wire.answers import list_of
from redis_counters.protocol.wire.commands import Command, hmget
from redis_counters.protocol.wire.keys import meta_key
from redis_counters.protocol.wire.namespace import look_up_namespace, settled_keys
from redis_counters.protocol.wire.refusals import of_many, of_shard
from redis_counters.protocol.wire.registry import record_of
from redis_counters.protocol.wire.shard_fields import CROWD, ask_for, is_crowded, pairs_of
from redis_counters.protocol.wire.values import CounterValue
from redis_counters.protocol.write.actor_set import ActorSet
from redis_counters.protocol.write.slot_totals import SIGNS
from redis_counters.protocol.write.writer import Writer

MAX_KNOWN = 20_000  # counters whose number of shards was learned from Redis
MAX_ATTEMPTS = 5  # to read without an own actor ending meanwhile
MAX_DOUBTS = 10  # to read what is there now and absent the next time: servers take turns behind one address
MAX_CROWDED = 100  # shards that the janitor is to look at

NOTHING_KNOWN: Mapping[bytes, CounterValue] = {}  # it is never written to

Asks = Generator[list[Command], list[object], dict[bytes, CounterValue]]


class Reads:
    """Fetches values from Redis, and keeps them in a cache. Not thread-safe: drivers lock."""

    def __init__(
        self,
        writer: Writer,
        clock: Callable[[], float],
        wall: Callable[[], float],
        chance: Callable[[], float],
        *,
        grouped: bool = False,
    ) -> None:
        self.writer = writer
        self.router = writer.router
        self.clock = clock
        self.cache = ReadCache(writer, clock)
        self.grouped = grouped  # keys of different buckets are not asked for together
        self.wall = wall
        self.chance = chance
        self.sums = ParsedCache()
        self.snapshots = 0
        self.most_known = MAX_KNOWN  # numbers of shards, until it is looked which of them are needed
        self.crowded: dict[bytes, None] = {}  # shards with many slots, for the janitor to look at

    def fetch(self, names: Iterable[bytes], known: Mapping[bytes, CounterValue] = NOTHING_KNOWN) -> Asks:
        """Return new values by name; in one round trip, as long as no number of shards has grown.

        A counter that is refused does not keep the others from being read: the error has their values, and ``known``.

        No shard is missed: every writer publishes a larger number in shard 0 before it uses it, and shard 0 is read
        not later than the others; where it tells of more, the new ones are read too.
        """
        writer, cache = self.writer, self.cache
        names = list(names)
        if self.router.keys is None:
            (raw,) = yield [look_up_namespace(writer.settings)]
            self.settle(raw)
        records = SeenRecords()
        attempts = 0
        while True:
            attempts += 1
            page = self._begin(names)
            settled, seen = self.router.keys is not None, writer.turns
            doubts: Doubts = {}
            refused: dict[bytes, Refused] = {}
            as_before, want = yield from self._fetch_page(page, records, doubts, refused)
            while want:
                want = yield from self._fetch_more(want, records, doubts, refused)
            if doubts and attempts < MAX_DOUBTS and (yield from self._ask_registries(doubts, records, seen)):
                continue  # (an actor is folded or lost once in a fetch)
            # Own slots may have been folded meanwhile, into a base that was read before, or lost and sent again.
            changed = seen != writer.turns
            if not changed or attempts >= MAX_ATTEMPTS:
                break
        snapshots = page.snapshots
        if refused:
            kept = [(name, snapshot) for name, snapshot in zip(names, snapshots, strict=True) if name not in refused]
            names, snapshots = [name for name, _ in kept], [snapshot for _, snapshot in kept]
        if seen[2] != writer.losses:  # in each attempt: then what is absent is taken for lost rather than for deleted
            for snapshot in snapshots:
                snapshot.forget_acknowledged(records.folded)
        if not settled:
            for snapshot in snapshots:
                snapshot.places = []  # there may be another number of buckets after all
        writer.accumulator.drain()
        if as_before and not writer.accumulator.accepted:
            values = dict(zip(names, page.values))  # noqa: B905 - of the same length
        else:
            values = {name: cache.merged(name, snapshot) for name, snapshot in zip(names, snapshots, strict=True)}
        cache.keep(names, snapshots, page.taken)
        if len(self.router.shards.known) >= self.most_known:
            self._forget_shards()
        self.snapshots += len(snapshots)
        if refused:
            first, *more = refused.values()
            raise of_many(refused, {**known, **values}) if known or values or more else first
        return values

    def _begin(self, names: list[bytes]) -> PageRead:
        """Return what is to be asked for now."""
        writer = self.writer
        writer.accumulator.drain()
        taken = writer.looks.used_at = self.clock()
        # Up to a tenth less, by chance, so that processes do not refresh in step.
        fresh_until = taken + writer.settings.max_age * (1 - 0.1 * self.chance())
        as_of = self.wall()
        every, own = self._places(names), None
        if self.router.keys is not None and writer.accumulator.accepted:
            own = [acknowledged(self.router.buckets, places) for places in every]
        return PageRead(names, every, own, self.sums, taken, as_of, fresh_until, writer.drops, self.router.epoch)

    def _forget_shards(self) -> None:
        """Of counters that are neither read nor counted at present, numbers of shards are not kept for ever."""
        shards = self.router.shards
        self.writer.accumulator.drain()
        for name in list(shards.known):
            if name not in self.cache.snapshots and name not in self.cache.fetching and not self.router.owns(name):
                shards.forget(name)
        self.most_known = max(MAX_KNOWN, 2 * len(shards.known))

    def settle(self, raw: object) -> bool:
        """The buckets are known, from the namespace's record; False if there is none, so nothing has been counted."""
        values = list_of(raw, key=meta_key(self.writer.settings.namespace))
        if None in values:
            return False
        self.writer.settle(settled_keys(values, self.writer.settings), self.clock())
        return True

    def _places(self, names: Sequence[bytes]) -> list[list[Place]]:
        """Return where the shards of each of these counters are, as far as they are known."""
        before, more = self.cache.snapshots.get, self._more_places
        every: list[list[Place]] = []
        for name, width in zip(names, self.router.shards.widths(names), strict=True):
            snapshot = before(name)
            if snapshot is not None and len(places := snapshot.places) == width:
                every.append(places)
            else:
                every.append(more(name, 0, width))
        return every

    def _more_places(self, name: bytes, start: int, stop: int) -> list[Place]:
        keys = self.router.presumed_keys
        return [keys.shard_key(name, shard) for shard in range(start, stop)]

    def _ask_registries(
        self, doubts: Doubts, records: SeenRecords, seen: tuple[int, int, int]
    ) -> Generator[list[Command], list[object], bool]:
        """Find out whether these actors were folded, or what is absent of them was lost, or deleted.

        True if values have to be made anew: if another client has folded one, or Redis has lost one. What an actor had
        applied when it was folded is in the base, and must not be added to it. Its slots are asked for once more, just
        before its record: what is absent beside a record that is as it should be was deleted. (A slot and a record out
        of two round trips may be of two servers, with a fail-over in between.) What was lost is sent again in the next
        round, by every actor; until then own totals count in full.
        """
        writer = self.writer
        assert self.router.keys is not None
        registries = self.router.keys.registries
        commands: list[Command] = []
        for actor, slots in doubts.values():
            commands.extend(hmget(key, (actor.id + SIGNS[table.kind],)) for table, key in slots)
            commands.append(hmget(registries[actor.bucket], (actor.id, b"g", b"c")))
        # (What is acknowledged from here on need not be in what is read now.)
        asked = [(actor, actor.base, slots) for actor, slots in doubts.values()]
        had = [[table.acknowledged.get(key, 0) for table, key in slots] for _actor, _base, slots in asked]
        answers = iter((yield commands))
        anew = False
        for (actor, base, slots), least in zip(asked, had, strict=True):
            there = [_count_of(next(answers)) for _slot in slots]
            field, generation, cleaned = list_of(next(answers), 3)
            record = record_of(actor.id, field)
            if record is not None and record.state == b"f":
                records.folded[actor.owner] = actor.applied_as_of(record.seq)[0]
                anew = True
            elif field is None and _is_cleaned(actor.id, generation, cleaned):
                # How far it got is not known any more, so rather too little.
                records.folded[actor.owner] = actor.all_highest_sent()
                anew = True
            elif base > 0 and (record is None or record.seq < base):
                records.lost.add(actor.owner)
                writer.probe_all()
                anew = True
            else:
                for (table, key), found, enough in zip(slots, there, least, strict=True):
                    if found >= enough:  # it has come back
                        anew = True
                    elif seen == writer.turns and key in table.acknowledged:
                        table.absent.add(key)  # else Redis may have lost it, and got it again, in between
        return anew

    def _fetch_page(
        self, page: PageRead, records: SeenRecords, doubts: Doubts, refused: dict[bytes, Refused]
    ) -> Generator[list[Command], list[object], tuple[bool, list[Want]]]:
        """The snapshots of a page have what Redis holds of the shards that are known.

        Return whether that is what was read last, and which shards there are besides.
        """
        buckets, shards = self.router.presumed_keys.buckets, self.router.shards
        learned = shards.learned
        texts: list[Any] = yield from ask_for(page.keys(), grouped=self.grouped, meanwhile=page.prepare)
        page.prepare()
        as_before = texts == page.as_before
        if as_before and self._own(buckets) is None and learned == shards.learned:
            if page.crowded:
                self._look_for_crowds(page.wanted(), texts)
            return True, []
        return as_before, self._take(page.wanted(), texts, buckets, records, doubts, refused)

    def _own(self, buckets: int) -> list[ActorSet] | None:
        """Return the buckets in which this process has slots. They were so many when it was asked.

        An own slot may have come into being meanwhile, and with it the buckets.
        """
        writer = self.writer
        return self.router.buckets if writer.accumulator.accepted and len(self.router.buckets) == buckets else None

    def _fetch_more(
        self, want: list[Want], records: SeenRecords, doubts: Doubts, refused: dict[bytes, Refused]
    ) -> Generator[list[Command], list[object], list[Want]]:
        """Add what Redis holds of these shards to their snapshots; return which more there are."""
        writer, buckets = self.writer, self.router.presumed_keys.buckets
        if self.router.keys is not None and writer.accumulator.accepted:
            for _name, snapshot, places in want:
                snapshot.acknowledged = {**snapshot.acknowledged, **acknowledged(self.router.buckets, places)}
        keys = [key for _name, _snapshot, places in want for _bucket, key in places]
        texts = yield from ask_for(keys, grouped=self.grouped)
        return self._take(want, texts, buckets, records, doubts, refused)

    def _take(
        self,
        want: list[Want],
        texts: list[Any],
        buckets: int,
        records: SeenRecords,
        doubts: Doubts,
        refused: dict[bytes, Refused],
    ) -> list[Want]:
        """Add the fields of these shards to their snapshots; return which more there are, but of what is refused."""
        learned, own = self.router.shards, self._own(buckets)
        more: list[Want] = []
        at = 0
        for name, snapshot, places in want:
            raws = texts[at : at + len(places)]
            at += len(places)
            first = len(snapshot.places) - len(places)
            try:
                found = self.sums.of(name, raws) if not first else added_up(name, raws, first, snapshot.copies)
            except Refused as error:
                refused[name] = _refused_shard(error, name, places, raws)
                continue
            _raws, counted, published = found
            snapshot.counted = snapshot.counted + counted if first else counted
            if own is not None:
                for (bucket, key), raw in zip(places, raws, strict=True):
                    snapshot.take_own(own[bucket].actors, key, raw, records, doubts)
            if published > 1:
                learned.learn(name, published)
            if not first and published < len(places) and not _counted_apart(name, raws, published):
                self.router.follow(name, published)
            if not learned.single and learned.of(name) > len(snapshot.places):  # a handle may have asked for more too
                if not first:
                    snapshot.copies = copies_in(pairs_of(raws[0], name))
                added = self._more_places(name, len(snapshot.places), learned.of(name))
                snapshot.places = snapshot.places + added
                more.append((name, snapshot, added))
        if refused or max(map(len, texts)) >= CROWD:
            self._look_for_crowds(want, texts)
        return more

    def _look_for_crowds(self, want: list[Want], texts: list[Any]) -> None:
        keys = (key for _name, _snapshot, places in want for _bucket, key in places)
        for key, text in zip(keys, texts, strict=True):
            if is_crowded(text) and len(self.crowded) < MAX_CROWDED:
                self.crowded[key] = None


def _refused_shard(error: Refused, name: bytes, places: Sequence[Place], raws: Sequence[object]) -> Refused:
    """Return the error with the key of the shard that it is about."""
    for (_bucket, key), raw in zip(places, raws, strict=True):
        try:
            sum_fields(pairs_of(raw, name))
        except (Refused, ValueError) as its_own:
            return of_shard(key, its_own)
    return of_shard(places[0][1], error)  # of the number of shards, which the first one tells


def _counted_apart(name: bytes, raws: Sequence[object], published: int) -> bool:
    """True if a shard beyond those that shard 0 speaks of counts what shard 0 has no copy of.

    Then the counter was not given fewer shards: a fail-over has taken back what shard 0 said, and it will be
    published again.
    """
    copies = copies_in(pairs_of(raws[0], name))
    return any(added_up(name, [raw], shard, copies)[1] for shard, raw in enumerate(raws[published:], published))


def _count_of(answer: object) -> int:
    """Return what is in this slot, asked for alone; 0 if there is none, or something else than a counter."""
    value = answer[0] if isinstance(answer, (list, tuple)) and answer else None
    return int(value) if isinstance(value, bytes) and value.isdigit() else 0


def _is_cleaned(actor: bytes, generation: object, cleaned: object) -> bool:
    """True if the record of this actor may have been cleaned up, by what its registry says; else it was lost."""
    its_generation, number, _ = actor.split(b".", 2)
    return its_generation == generation and isinstance(cleaned, bytes) and int(number) <= int(cleaned)
