"""The backstop: both sides are compared, bucket by bucket and range by range, and what differs is repaired.

Pulling brings whatever changes. This finds what is not told as a change: counts that a region lost and its peers still
have (a fail-over, a restored backup, a key deleted by hand), and shards that were refused when they were pulled.

1. The members of the bucket's indexes, of both sides, in order: an index remembers keys that are gone. What was only
   noted is entered before.
2. Of 200 of them at a time each side says one number (`entries_digest`). Equal: nothing else travels.
3. Else both tell what they hold; what one side lacks of an entry goes there as a repair, and nothing else.

The mark of a side is read before what it is to be told, and given along: what another exchange has merged meanwhile, or
what was dropped, makes the repair void, and it is made again.

When the next range is compared: all buckets one after the other, so slowly that a quiet pair stays quiet.
"""

from __future__ import annotations

from collections.abc import Sequence

from redis_counters.protocol.exchange.asks import DESTINATION, SOURCE, Ask, Asks
from redis_counters.protocol.exchange.change_index import is_note
from redis_counters.protocol.exchange.members import unfinished
from redis_counters.protocol.exchange.metrics import SyncMetrics
from redis_counters.protocol.exchange.pull import Unjoined, check_confirmed, learn, texts_of, without_wrong
from redis_counters.protocol.exchange.repair import say, unseal
from redis_counters.protocol.exchange.route import Route
from redis_counters.protocol.exchange.shard_text import expiry_of, lacking, of_region, told_of
from redis_counters.protocol.wire.answers import all_answered, list_of, reply_of
from redis_counters.protocol.wire.commands import Command, ErrorReply, Script
from redis_counters.protocol.wire.marks import NONE, is_void
from redis_counters.protocol.wire.refusals import error_for
from redis_counters.protocol.wire.registry import milliseconds_of, time
from redis_counters.protocol.wire.replies import BadReply

CHUNK = 200  # shards that are compared at a time
PAGE = 500  # members of an index that are read at a time
ENTERED = 1000  # names at a time that were only noted
ENTERINGS = 30  # at most: more than is noted at any time (slots_merge); what is noted meanwhile is told as a change
ATTEMPTS = 5  # at a repair that another exchange makes void


class Comparison:
    """Of one bucket. `step` is to be run until `done`; it may be dropped at any time."""

    def __init__(self, route: Route, bucket: int, *, both: bool) -> None:
        """``both``: the source is repaired, too."""
        self.route = route
        self.bucket = bucket
        self.both = both
        self.members: list[bytes] | None = None
        self.at = 0
        self.done = False
        self.differed = 0  # shards so far that were repaired

    def whole(self, metrics: SyncMetrics) -> Asks[None]:
        """All of it at once."""
        while not self.done:
            yield from self.step(metrics)

    def step(self, metrics: SyncMetrics) -> Asks[None]:
        """The next range: its members are read before the first."""
        if self.members is None:
            self.members = yield from self._list()
        members = self.members[self.at : self.at + CHUNK]
        if members:
            prefix = self.route.prefix(self.bucket)
            yield from self._compare([prefix + member for member in members], metrics)
            metrics.compared += len(members)
            self.at += len(members)
        self.done = self.at >= len(self.members)

    def _list(self) -> Asks[list[bytes]]:
        found: set[bytes] = set()
        for side in (SOURCE, DESTINATION):
            yield from self._enter_notes(side)
            reading = [(index, b"0") for index in self.route.indexes(side, self.bucket)]
            while reading:
                answers = all_answered((yield Ask(side, [_zscan(index, cursor) for index, cursor in reading])))
                rest = []
                for (index, _), raw in zip(reading, answers, strict=True):
                    cursor, page = _page(raw, index)
                    found.update(member for member in page if not is_note(member))
                    if cursor != b"0":
                        rest.append((index, cursor))
                reading = rest
        return sorted(found)

    def _enter_notes(self, side: int) -> Asks[None]:
        for _ in range(ENTERINGS):
            (raw,) = all_answered((yield Ask(side, [self.route.enter_notes(self.bucket, ENTERED)])))
            if not reply_of(raw, Script.NOTES_ENTER).number(0):
                return

    def _compare(self, shards: Sequence[bytes], metrics: SyncMetrics) -> Asks[None]:
        drops: list[Command | None] = [None, None]
        for side in (SOURCE, DESTINATION) if self.both else (DESTINATION,):
            peers, kept = yield from say(self.route, side)
            if peers:
                drops[side] = self.route.drop(side, self.bucket, peers, kept, shards)
        digests = []
        for side in (DESTINATION, SOURCE):
            tidy = drops[side]
            commands = [self.route.digest(side, shards), *([tidy] if tidy is not None else [])]
            answers = all_answered((yield Ask(side, commands)))
            reply = reply_of(answers[0], Script.ENTRIES_DIGEST)
            digests.append((reply.text(0), reply.text(1)))
            if len(answers) > 1:
                dropped = reply_of(answers[1], Script.ENTRIES_DROP)
                if dropped.word == "OTHERS":
                    learn(self.route, side, dropped)
                metrics.dropped += dropped.number(0) if dropped.word == "OK" else 0
        if digests[0] == digests[1]:
            return
        for _ in range(ATTEMPTS):
            if (yield from self._repair(shards, metrics)):
                return

    def _repair(self, shards: Sequence[bytes], metrics: SyncMetrics) -> Asks[bool]:
        """Each side has what it lacked. Returns False if that was void, and is to be done again."""
        route, bucket = self.route, self.bucket
        mark_there = yield from self._mark(DESTINATION)
        commands = [route.mark_of(SOURCE, bucket), route.read(SOURCE, bucket, shards), *route.confirm(bucket)]
        answers = all_answered((yield Ask(SOURCE, commands)))
        mark_here = _mark(answers[0], route.destination)
        ours = texts_of(answers[1:2], len(shards))
        check_confirmed(route.durability, answers[2:], "what the source has told", metrics)
        answers = all_answered(
            (yield Ask(DESTINATION, [route.read(DESTINATION, bucket, shards), *route.confirm(bucket)]))
        )
        theirs = texts_of(answers[:1], len(shards))
        if self.both:
            check_confirmed(route.durability, answers[1:], "what the destination has told", metrics)
        hopeless = [n for n, each in enumerate(zip(ours, theirs, strict=True)) if any(t[:1] == b"!" for t in each)]
        ours, theirs = without_wrong(shards, ours, metrics), without_wrong(shards, theirs, metrics)
        for n in hopeless:  # a side that cannot tell of it does not take it either
            ours[n] = theirs[n] = b""
        there = yield from self._tell(DESTINATION, mark_there, shards, theirs, ours, metrics)
        here = not self.both or (yield from self._tell(SOURCE, mark_here, shards, ours, theirs, metrics))
        return there and here

    def _mark(self, side: int) -> Asks[bytes]:
        (raw,) = all_answered((yield Ask(side, [self.route.mark_of(side, self.bucket)])))
        return _mark(raw, self.route.names[1 - side])

    def _tell(
        self,
        side: int,
        since: bytes,
        shards: Sequence[bytes],
        held: Sequence[bytes],
        told: Sequence[bytes],
        metrics: SyncMetrics,
    ) -> Asks[bool]:
        texts = list(map(lacking, held, told))
        lacks = [n for n, text in enumerate(texts) if text]
        if not lacks or since == NONE:  # (without a mark there is no index yet that anyone would look into)
            return True
        keys, some = [shards[n] for n in lacks], [texts[n] for n in lacks]
        lost = yield from self._lost(side, keys, some, [told[n] for n in lacks])
        (raw,) = all_answered((yield Ask(side, [self.route.merge(side, self.bucket, since, b"", keys, some)])))
        reply = reply_of(raw, Script.ENTRIES_MERGE)
        if reply.word == "UNJOINED":
            raise Unjoined(side)
        if reply.word == "OTHER":
            return False
        metrics.merged(self.route.members(self.bucket, keys), some, reply.number(1))
        metrics.repaired += reply.number(1)
        metrics.behind[side] += lost
        self.differed += reply.number(1)
        again = False
        for index, error in reply.refused(2):
            if (yield from unseal(self.route, side, keys[index - 1])):
                again = True
            else:
                metrics.refuse(keys[index - 1], error.encode())
        return not again

    def _lost(self, side: int, keys: Sequence[bytes], texts: Sequence[bytes], told: Sequence[bytes]) -> Asks[int]:
        """Return in how many shards a side has less of its own counts than the other has told."""
        own = self.route.names[side]
        back = [n for n, text in enumerate(texts) if of_region(text, own)]
        if any(expiry_of(texts[n]) for n in back):  # one that has expired by the clock there is not lost
            (raw,) = all_answered((yield Ask(side, [time(self.route.keys.registries[self.bucket])])))
            now = milliseconds_of(raw)
            back = [n for n in back if not 0 < expiry_of(texts[n]) <= now]
        if not back or side == DESTINATION:
            return len(back)
        # What the destination tells was read later than what the source held, and may be news from there.
        (raw,) = all_answered((yield Ask(side, [self.route.read(side, self.bucket, [keys[n] for n in back])])))
        held = [told_of(text)[0] for text in texts_of([raw], len(back))]
        return sum(bool(of_region(lacking(text, told[n]), own)) for n, text in zip(back, held, strict=True))


def _mark(raw: object, of: bytes) -> bytes:
    if isinstance(raw, ErrorReply):
        raise error_for(raw, None)
    mark = raw if isinstance(raw, bytes) else NONE
    if is_void(mark):
        raise unfinished(of)
    return mark


def _zscan(index: bytes, cursor: bytes) -> Command:
    return Command(None, (index,), (cursor, b"COUNT", PAGE), b"ZSCAN")


def _page(raw: object, index: bytes) -> tuple[bytes, list[bytes]]:
    """Return the next cursor, and members."""
    cursor, page = list_of(raw, 2, index)
    if not isinstance(page, list):
        raise BadReply("expected a cursor and a page")
    members = [part[0] for part in page] if page and isinstance(page[0], (list, tuple)) else page[::2]
    if not all(isinstance(member, bytes) for member in members):
        raise BadReply("expected bytes")
    return (cursor if isinstance(cursor, bytes) else str(cursor).encode()), members


CYCLE = 300.0  # seconds that it takes at least to go through everything once
RATE = 140 / 60  # bytes a second and bucket; looks for changes, and heartbeats, take another 830 a minute
PAUSE = 1.0  # seconds after one that failed
FIRST = 10.0  # seconds within which the first one begins


class Schedule:
    """Of one pair. ``at_once``: comparisons of buckets that may differ, which are not paced."""

    def __init__(self, now: float, chance: float) -> None:
        self.next = now + FIRST * chance
        self.began = self.next
        self.bucket = 0
        self.current: Comparison | None = None
        self.at_once: dict[int, Comparison] = {}
        self.not_before = now  # at_once is not gone on with, because it failed

    def restart(self) -> None:
        """The connections are new: what was begun is begun again."""
        self.current = None
        self.at_once.clear()

    def failed_at_once(self, now: float) -> None:
        """A comparison that is not paced did not go through."""
        self.at_once.clear()
        self.not_before = now + PAUSE

    def begin(self, comparison: Comparison, now: float) -> None:
        """This is the next bucket."""
        if self.bucket == 0:
            self.began = now
        self.current = comparison

    def stepped(self, size: int, buckets: int, now: float, *, failed: bool = False) -> None:
        """A range was compared, which took so many bytes."""
        self.next = now + size / (RATE * buckets)
        if self.current is not None and (self.current.done or failed):
            self.current = None
            self.bucket = (self.bucket + 1) % buckets
            if self.bucket == 0:
                self.next = max(self.next, self.began + CYCLE)
        if failed:
            self.next = max(self.next, now + PAUSE)
