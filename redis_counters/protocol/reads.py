"""The read side of a client: snapshots of Redis, a cache of them, and their merge with what this process counted.

A value is the snapshot, with this process's own slots raised to its own totals: the process is a replica too, so it
reads its own writes at once (Almeida & Baquero, Scalable Eventually Consistent Counters, section 3: a value is never
above what was issued, and never less than the own increments since the last read).
Sans-I/O: generators yield lists of commands and are given the lists of their answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable
from itertools import islice
from typing import NamedTuple, TypeVar

from redis_counters.crdt.tally import tally
from redis_counters.errors import CounterError, WrongType
from redis_counters.protocol.actor import Actor
from redis_counters.protocol.answers import list_of
from redis_counters.protocol.commands import Command, hmget
from redis_counters.protocol.keys import meta_key
from redis_counters.protocol.namespace import look_up_namespace, settled_keys
from redis_counters.protocol.replies import BadReply
from redis_counters.protocol.shard_fields import ask_for, is_crowded, pairs_of
from redis_counters.protocol.shards import check_told
from redis_counters.protocol.snapshots import Folded, Place, Snapshot
from redis_counters.protocol.values import CounterValue, name_shown
from redis_counters.protocol.writer import Writer

MOST_CACHED = 10_000  # names; the oldest snapshots go first
MOST_KNOWN = 20_000  # counters whose number of shards was learned from Redis
MOST_FAILURES = 1_000  # names; whoever waited for one that is forgotten asks for himself
MOST_ATTEMPTS = 5  # to read without an own actor ending meanwhile
MOST_CROWDED = 100  # shards that the janitor is to look at

T = TypeVar("T")
Asks = Generator[list[Command], list[object], dict[bytes, CounterValue]]
Want = tuple[bytes, Snapshot, list[Place]]  # shards that the snapshot of a name needs


class Claim(NamedTuple):
    """What a reader gets: values, and names to fetch; if ``busy``, he has to wait until somebody's fetch is over."""

    values: dict[bytes, CounterValue]
    missing: list[bytes]
    busy: bool


class Ticket:
    """Of one reader: the names that he fetches.

    It is his before anything is entered in it; ``over`` is set as the first thing when he is through, or interrupted,
    and counts from then on, even if another exception keeps him from releasing the names.
    """

    __slots__ = ("names", "over")

    def __init__(self) -> None:
        self.names: list[bytes] = []
        self.over = False


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
        self.ones, self.amounts = writer.buffer.ones, writer.buffer.amounts
        self.clock = clock
        self.wall = wall
        self.chance = chance
        self.cache: dict[bytes, Snapshot] = {}
        self.fetching: dict[bytes, Ticket] = {}
        self.outdated: dict[bytes, float] = {}  # since when a fetch that is under way may lack something
        self.failures: dict[bytes, tuple[float, CounterError]] = {}  # when a fetch of a name failed, and how
        self.snapshots = 0
        self.most_known = MOST_KNOWN  # numbers of shards, until it is looked which of them are needed
        self.crowded: dict[bytes, None] = {}  # shards with many slots, for the janitor to look at

    # -- from memory

    def cached(self, name: bytes, max_age: float | None) -> CounterValue | None:
        """Return the value if a snapshot not older than ``max_age`` seconds is at hand (None: as the option says)."""
        snapshot = self.cache.get(name)
        if snapshot is None or snapshot.drops != self.writer.drops:
            return None
        now = self.clock()
        if now >= snapshot.fresh_until if max_age is None else now - snapshot.taken >= max_age:
            return None
        return self.value(name, snapshot)

    def at_hand(self, name: bytes) -> CounterValue | None:
        """Return the cached value if it is fresh and nothing has changed since it was made. Needs no lock.

        The order matters: the epoch grows before the buffer is emptied, so who finds it empty finds the epoch changed.
        """
        if self.ones or self.amounts:
            return None
        try:
            snapshot = self.cache[name]
        except KeyError:
            return None
        if snapshot.epoch != self.writer.epoch or snapshot.fresh_until <= self.clock():
            return None
        return snapshot.value

    def claim(self, names: Iterable[bytes], max_age: float | None, since: float | None, ticket: Ticket) -> Claim:
        """Return what is at hand, and what the caller has to fetch; that is his (on the ticket) until `release`.

        Two fetches of a name at a time could not be put in order, and values would run backwards. So of what somebody
        fetches already, the last value will do if it is not twice too old; else the caller waits, and claims again.
        ``since`` is when he came, once he has waited: a fetch that began later answers even who wants no cache.
        """
        if max_age is None and self.writer.settings.max_age == 0:
            max_age = 0
        values: dict[bytes, CounterValue] = {}
        missing = list(dict.fromkeys(names))
        if max_age != 0 or since is not None:
            self.writer.drain()
            for name in missing:
                value = self._will_do(name, max_age, since)
                if value is not None:
                    values[name] = value
            if values:
                missing = [name for name in missing if name not in values]
        if self.fetching and any(name in self.fetching and not self.fetching[name].over for name in missing):
            return Claim(values, missing, True)
        ticket.names = missing
        self.fetching.update(dict.fromkeys(missing, ticket))
        return Claim(values, missing, False)

    def _will_do(self, name: bytes, max_age: float | None, since: float | None) -> CounterValue | None:
        if max_age != 0:
            value = self.cached(name, max_age)
            if value is None and name in self.fetching:  # somebody is about to know better: this will do until then
                value = self.cached(name, 2 * (self.writer.settings.max_age if max_age is None else max_age))
            if value is not None:
                return value
        snapshot = self.cache.get(name)
        return self.last(name) if snapshot is not None and since is not None and snapshot.taken > since else None

    def forget(self, name: bytes) -> None:
        """What is read of the counter from now on was asked for later than this: Redis has just changed for us."""
        self.cache.pop(name, None)
        if name in self.fetching:
            self.outdated[name] = self.clock()

    def release(self, ticket: Ticket, failure: CounterError | None = None) -> None:
        """The fetch is over; if it failed, those who waited for it need not find out one after the other."""
        names = ticket.names
        for name in names:
            if self.fetching.get(name) is ticket:
                del self.fetching[name]
                self.outdated.pop(name, None)
        if failure is not None:
            for name in names:
                self.failures.pop(name, None)
            self.failures.update(dict.fromkeys(names, (self.clock(), failure)))
            _forget_oldest(self.failures, MOST_FAILURES)
        elif self.failures:
            for name in names:
                self.failures.pop(name, None)

    def failure(self, names: Iterable[bytes], since: float) -> CounterError | None:
        """Return the error of a fetch of one of these names that somebody waited for since then."""
        for name in names:
            when, error = self.failures.get(name, (-math.inf, None))
            if when > since:
                return error
        return None

    def last(self, name: bytes) -> CounterValue | None:
        """Return the value from the last snapshot, whatever its age, if there is a valid one."""
        return self.cached(name, float("inf"))

    def value(self, name: bytes, snapshot: Snapshot) -> CounterValue:
        """Return the snapshot's value, merged with what this process counted."""
        writer = self.writer
        if self.ones or self.amounts or writer.unabsorbed:
            writer.drain()
        if snapshot.epoch == writer.epoch and snapshot.value is not None:
            return snapshot.value
        return self._merged(name, snapshot)

    def _merged(self, name: bytes, snapshot: Snapshot) -> CounterValue:
        writer = self.writer
        value, pending = snapshot.counted, 0
        if not writer.accepted:
            pass  # this process has counted nothing, of any name
        elif writer.keys is None:
            pending = writer.early[0].get(name, 0) - writer.early[1].get(name, 0)
            value += pending
        else:
            places, buckets = snapshot.places, writer.buckets
            if len(places) != writer.shards.of(name):
                places = [writer.keys.shard_key(name, shard) for shard in range(writer.shards.of(name))]
            for bucket, key in places:
                for actor in buckets[bucket].actors:
                    plus, minus, _ = actor.tables
                    if key in plus.total:
                        more, waiting = snapshot.lacks(actor.owner, plus, key)
                        value, pending = value + more, pending + waiting
                    if key in minus.total:
                        more, waiting = snapshot.lacks(actor.owner, minus, key)
                        value, pending = value - more, pending - waiting
        merged = snapshot.value = CounterValue(value, snapshot.as_of, pending)
        snapshot.epoch = writer.epoch
        return merged

    # -- from Redis

    def fetch(self, names: Iterable[bytes]) -> Asks:
        """Return new values by name; in one round trip, as long as no number of shards has grown.

        No shard is missed: every writer publishes a larger number in shard 0 before it uses it, and shard 0 is read
        not later than the others; where it tells of more, the new ones are read too.
        """
        writer, cache = self.writer, self.cache
        names = list(names)
        if writer.keys is None:
            (raw,) = yield [look_up_namespace(writer.settings)]
            self.settle(raw)
        folded: Folded = {}
        attempts = 0
        while True:
            attempts += 1
            writer.drain()
            taken, as_of, settled = self.clock(), self.wall(), writer.keys is not None
            drops, folds = writer.drops, writer.folds
            # Up to a tenth less, by chance, so that processes do not refresh in step.
            fresh_until = taken + writer.settings.max_age * (1 - 0.1 * self.chance())
            found = {name: Snapshot(taken, as_of, fresh_until, drops, self._places(name)) for name in names}
            doubts: dict[bytes, Actor] = {}
            want = [(name, snapshot, snapshot.places) for name, snapshot in found.items()]
            while want:
                want = yield from self._fetch_shards(want, folded, doubts)
            if doubts and (yield from self._ask_whether_folded(list(doubts.values()), folded)):
                continue  # (never twice for the same actor)
            # Own slots may have been folded meanwhile, into a base that was read before.
            changed = drops != writer.drops or folds != writer.folds
            if not changed or attempts >= MOST_ATTEMPTS:
                break
        outdated = self.outdated
        for name, snapshot in found.items():
            if not settled:
                snapshot.places = []  # there may be another number of buckets after all
            cache.pop(name, None)  # so that the oldest stand in front
            if not outdated or outdated.get(name, -math.inf) < taken:
                cache[name] = snapshot
        _forget_oldest(cache, MOST_CACHED)
        self._forget_shards()
        self.snapshots += len(found)
        writer.drain()
        return {name: self._merged(name, snapshot) for name, snapshot in found.items()}

    def _forget_shards(self) -> None:
        """Of counters that are neither read nor counted at present, numbers of shards are not kept for ever."""
        shards = self.writer.shards
        if len(shards.known) < self.most_known:
            return
        self.writer.drain()
        for name in list(shards.known):
            if name not in self.cache and name not in self.fetching and not self.writer.owns(name):
                shards.forget(name)
        self.most_known = max(MOST_KNOWN, 2 * len(shards.known))

    def settle(self, raw: object) -> bool:
        """The buckets are known, from the namespace's record; False if there is none, so nothing has been counted."""
        values = list_of(raw, key=meta_key(self.writer.settings.namespace))
        if None in values:
            return False
        self.writer.settle(settled_keys(values, self.writer.settings), self.clock())
        return True

    def _places(self, name: bytes) -> list[Place]:
        width, before = self.writer.shards.of(name), self.cache.get(name)
        if before is not None and len(before.places) == width:
            return before.places
        return self._more_places(name, 0, width)

    def _more_places(self, name: bytes, start: int, stop: int) -> list[Place]:
        keys = self.writer.presumed_keys
        return [keys.shard_key(name, shard) for shard in range(start, stop)]

    def _ask_whether_folded(self, actors: list[Actor], folded: Folded) -> Generator[list[Command], list[object], bool]:
        """Own slots are absent that Redis may have been told of; somebody may have folded them. True if he has.

        What an actor had applied when it was folded is in the base, and must not be added to it. One that is not
        folded now was not folded when its slot was looked for either: then nothing of it is there.
        """
        assert self.writer.keys is not None
        registries = self.writer.keys.registries
        answers = yield [hmget(registries[actor.bucket], (actor.id, b"g", b"c")) for actor in actors]
        found = False
        for actor, answer in zip(actors, answers, strict=True):
            record, generation, cleaned = list_of(answer, 3)
            if isinstance(record, bytes) and record.startswith(b"f"):
                folded[actor.owner] = actor.applied_as_of(int(record.split(b" ", 2)[1]))[0]
            elif record is None and _is_cleaned(actor.id, generation, cleaned):
                folded[actor.owner] = actor.told()  # nobody can tell any more, so rather too little
            else:
                continue
            found = True
        return found

    def _fetch_shards(
        self, want: list[Want], folded: Folded, doubts: dict[bytes, Actor]
    ) -> Generator[list[Command], list[object], list[Want]]:
        """Add what Redis holds of these shards to their snapshots; return which more there are."""
        writer, learned, buckets = self.writer, self.writer.shards, self.writer.presumed_keys.buckets
        if writer.keys is not None and writer.accepted:
            for _name, snapshot, places in want:
                snapshot.take_acknowledged(writer.buckets, places)
        texts = yield from ask_for([key for _name, _snapshot, places in want for _bucket, key in places])
        # An own slot may have come into being meanwhile, and with it the buckets.
        own = writer.buckets if writer.accepted and len(writer.buckets) == buckets else None
        more: list[Want] = []
        rest = iter(texts)
        for name, snapshot, places in want:
            shards = 1
            for bucket, key in places:
                text = next(rest)
                try:
                    counted, told = tally(pairs_of(text, name))
                    if told > 1:
                        check_told(told)
                        shards = max(shards, told)
                except ValueError as error:
                    raise WrongType(f"counter {name_shown(name)!r}: {error}", counter=name) from None
                except TypeError:  # numbers, lists, errors where a hash has texts
                    raise BadReply(f"counter {name_shown(name)!r}: what came as its fields are no texts") from None
                snapshot.counted += counted
                if own is not None:
                    snapshot.take_own(own[bucket].actors, key, text, folded, doubts)
                if is_crowded(text) and len(self.crowded) < MOST_CROWDED:
                    self.crowded[key] = None
            if shards > 1:
                learned.learn(name, shards)
            if not learned.single and learned.of(name) > len(snapshot.places):  # a handle may have asked for more too
                added = self._more_places(name, len(snapshot.places), learned.of(name))
                snapshot.places = snapshot.places + added
                more.append((name, snapshot, added))
        return more


def _forget_oldest(kept: dict[bytes, T], most: int) -> None:
    for oldest in list(islice(kept, max(0, len(kept) - most))):
        del kept[oldest]


def _is_cleaned(actor: bytes, generation: object, cleaned: object) -> bool:
    """True if the record of this actor may have been cleaned up, by what its registry says; else it was lost."""
    its_generation, number, _ = actor.split(b".", 2)
    return its_generation == generation and isinstance(cleaned, bytes) and int(number) <= int(cleaned)
