"""The backstop: both sides are compared, bucket by bucket and range by range, and what differs is repaired.

Pulling brings whatever changes. Comparing finds what no change announces: counts that a region lost and its peers still
have (a fail-over, a restored backup, a key deleted by hand), and shards that were refused when they were pulled.

1. The members of the bucket's indexes of both sides, in order: an index remembers keys that are gone. Names that were
   only noted are entered before.
2. Each side answers one number for 200 of them at a time (`entries_digest`). If they are equal, nothing else travels.
3. Else both send their texts; what one side lacks of an entry goes there as a repair, and nothing else.

The mark of a side is read before its repair is made, and given along: if another exchange has merged something
meanwhile, or something was dropped, the repair is void, and is made again.

`Schedule` says when the next range is compared: all buckets one after the other, and so slowly that a quiet pair stays
quiet.
"""

from __future__ import annotations

from collections.abc import Sequence

from redis_counters.protocol.exchange.asks import DESTINATION, SOURCE, Asks, ask, run
from redis_counters.protocol.exchange.change_index import is_note
from redis_counters.protocol.exchange.metrics import SyncMetrics
from redis_counters.protocol.exchange.pull import check_confirmed, held_mark, texts_of, without_wrong
from redis_counters.protocol.exchange.repair import take_dropped, unseal, votes
from redis_counters.protocol.exchange.route import Route
from redis_counters.protocol.exchange.shard_text import entries_of, expiry_of, lacking, split_error
from redis_counters.protocol.wire.answers import list_of, reply_of
from redis_counters.protocol.wire.commands import Command, Script
from redis_counters.protocol.wire.marks import NONE
from redis_counters.protocol.wire.registry import milliseconds_of, time
from redis_counters.protocol.wire.replies import BadReply

CHUNK_SIZE = 200  # shards that are compared at a time
PAGE_SIZE = 500  # members of an index that are read at a time
ENTERED = 1000  # names at a time that were only noted
MAX_ENTERINGS = 30  # more than is noted at any time (slots_merge); what is noted meanwhile is pulled as a change
MAX_ATTEMPTS = 5  # at a repair that another exchange makes void


class Comparison:
    """The comparison of one bucket. `step` is run until `done`; it may be given up at any time."""

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
        members = self.members[self.at : self.at + CHUNK_SIZE]
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
                answers = yield from ask(side, *[_zscan(index, cursor) for index, cursor in reading])
                rest = []
                for (index, _), raw in zip(reading, answers, strict=True):
                    cursor, page = _page(raw, index)
                    found.update(member for member in page if not is_note(member))
                    if cursor != b"0":
                        rest.append((index, cursor))
                reading = rest
        return sorted(found)

    def _enter_notes(self, side: int) -> Asks[None]:
        for _ in range(MAX_ENTERINGS):
            entered = yield from run(side, self.route.enter_notes(self.bucket, ENTERED))
            if not entered.number(0):
                return

    def _compare(self, shards: Sequence[bytes], metrics: SyncMetrics) -> Asks[None]:
        drops: dict[int, Command] = {}
        for side in (SOURCE, DESTINATION) if self.both else (DESTINATION,):
            peers, kept = yield from votes(self.route, side)
            if peers:
                drops[side] = self.route.drop(side, self.bucket, peers, kept, shards)
        digests = []
        for side in (DESTINATION, SOURCE):
            drop = [drops[side]] if side in drops else []
            raw, *dropped = yield from ask(side, self.route.digest(side, shards), *drop)
            reply = reply_of(raw, Script.ENTRIES_DIGEST)
            digests.append((reply.text(0), reply.text(1)))
            for each in dropped:
                take_dropped(self.route, side, reply_of(each, Script.ENTRIES_DROP), metrics)
        if digests[0] == digests[1]:
            return
        for _ in range(MAX_ATTEMPTS):
            if (yield from self._repair(shards, metrics)):
                return

    def _repair(self, shards: Sequence[bytes], metrics: SyncMetrics) -> Asks[bool]:
        """Each side has what it lacked. Returns False if that was void, and is to be done again."""
        route, bucket = self.route, self.bucket
        (raw,) = yield from ask(DESTINATION, route.mark_of(DESTINATION, bucket))
        mark_there = held_mark(raw, route.source)
        commands = [route.mark_of(SOURCE, bucket), route.read(SOURCE, bucket, shards), *route.confirm(bucket)]
        answers = yield from ask(SOURCE, *commands)
        mark_here = held_mark(answers[0], route.destination)
        ours = texts_of(answers[1:2], len(shards))
        check_confirmed(route.durability, answers[2:], "what the source has told", metrics)
        answers = yield from ask(DESTINATION, route.read(DESTINATION, bucket, shards), *route.confirm(bucket))
        theirs = texts_of(answers[:1], len(shards))
        if self.both:
            check_confirmed(route.durability, answers[1:], "what the destination has told", metrics)
        hopeless = [n for n, each in enumerate(zip(ours, theirs, strict=True)) if any(t[:1] == b"!" for t in each)]
        ours, theirs = without_wrong(shards, ours, metrics), without_wrong(shards, theirs, metrics)
        for n in hopeless:  # a side that cannot read it does not take it either
            ours[n] = theirs[n] = b""
        there = yield from self._send(DESTINATION, mark_there, shards, theirs, ours, metrics)
        here = not self.both or (yield from self._send(SOURCE, mark_here, shards, ours, theirs, metrics))
        return there and here

    def _send(
        self,
        side: int,
        since: bytes,
        shards: Sequence[bytes],
        held: Sequence[bytes],
        others: Sequence[bytes],
        metrics: SyncMetrics,
    ) -> Asks[bool]:
        """Send a side what it lacks: it ``held`` these texts, the other side has ``others``. False: as `_repair`."""
        texts = list(map(lacking, held, others))
        lacks = [n for n, text in enumerate(texts) if text]
        if not lacks or since == NONE:  # (without a mark nothing would look into an index there yet)
            return True
        keys, some = [shards[n] for n in lacks], [texts[n] for n in lacks]
        lost = yield from self._lost(side, keys, some, [others[n] for n in lacks])
        reply = yield from run(side, self.route.merge(side, self.bucket, since, b"", keys, some))
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

    def _lost(self, side: int, keys: Sequence[bytes], texts: Sequence[bytes], others: Sequence[bytes]) -> Asks[int]:
        """Return in how many shards a side has less of its own counts than the other side has."""
        own = self.route.names[side]
        back = [n for n, text in enumerate(texts) if entries_of(text, own)]
        if any(expiry_of(texts[n]) for n in back):  # one that has expired by the clock there is not lost
            (raw,) = yield from ask(side, time(self.route.keys.registries[self.bucket]))
            now = milliseconds_of(raw)
            back = [n for n in back if not 0 < expiry_of(texts[n]) <= now]
        if not back or side == DESTINATION:
            return len(back)
        # The destination was read after the source, and may have more recent counts of it.
        (raw,) = yield from ask(side, self.route.read(side, self.bucket, [keys[n] for n in back]))
        held = [split_error(text)[0] for text in texts_of([raw], len(back))]
        return sum(bool(entries_of(lacking(text, others[n]), own)) for n, text in zip(back, held, strict=True))


def _zscan(index: bytes, cursor: bytes) -> Command:
    return Command(None, (index,), (cursor, b"COUNT", PAGE_SIZE), b"ZSCAN")


def _page(raw: object, index: bytes) -> tuple[bytes, list[bytes]]:
    """Return the next cursor, and members."""
    cursor, page = list_of(raw, 2, index)
    if not isinstance(page, list):
        raise BadReply("expected a cursor and a page")
    members = [part[0] for part in page] if page and isinstance(page[0], (list, tuple)) else page[::2]
    if not all(isinstance(member, bytes) for member in members):
        raise BadReply("expected bytes")
    return (cursor if isinstance(cursor, bytes) else str(cursor).encode()), members


CYCLE_S = 300.0  # to go through everything once, at least
RATE = 140 / 60  # bytes a second and bucket; looks for changes, and heartbeats, take another 830 a minute
PAUSE_S = 1.0  # after a comparison that failed
FIRST_S = 10.0  # within which the first comparison begins


class Schedule:
    """When the buckets of one pair are compared; times in monotonic seconds.

    ``at_once``: comparisons of buckets that may differ, which are not paced.
    """

    def __init__(self, now: float, rng: float) -> None:
        self.next = now + FIRST_S * rng
        self.began = self.next
        self.bucket = 0
        self.current: Comparison | None = None
        self.at_once: dict[int, Comparison] = {}
        self.not_before = now  # of the next step of those at once, after one has failed

    def restart(self) -> None:
        """The connections are new: comparisons begin again."""
        self.current = None
        self.at_once.clear()

    def failed_at_once(self, now: float) -> None:
        """A comparison that is not paced did not go through."""
        self.at_once.clear()
        self.not_before = now + PAUSE_S

    def begin(self, comparison: Comparison, now: float) -> None:
        """This is the next bucket."""
        if self.bucket == 0:
            self.began = now
        self.current = comparison

    def stepped(self, size: int, buckets: int, now: float, *, failed: bool = False) -> None:
        """A range was compared, which took ``size`` bytes."""
        self.next = now + size / (RATE * buckets)
        if self.current is not None and (self.current.done or failed):
            self.current = None
            self.bucket = (self.bucket + 1) % buckets
            if self.bucket == 0:
                self.next = max(self.next, self.began + CYCLE_S)
        if failed:
            self.next = max(self.next, now + PAUSE_S)
