"""Pulling: the destination gets what has changed at the source since its mark, and the mark that says so.

1. The source is asked for its changes since the mark that the destination holds, a page of them and the mark that
   stands for having these too (`changes_list`). To ask with a mark is also the receipt for it. What was lost there and
   made again is given another dot (`dots_settle`), and is among the next changes.
2. The source tells what it has of the changed shards (`entries_read`), all entries of a shard together.
3. The destination takes the larger of each, and the new mark, in one step, and only if it still holds the mark that was
   asked with (`entries_merge`). Another exchange may have been there before: then it tells its mark, and that is asked
   with.

Killed anywhere, repeated, late: what is merged is the larger of two, and the mark moves only together with what it
stands for. With `durability`, what the source has told goes on only once it is confirmed there, and a mark is asked
with only once it is confirmed at the destination.
"""

from __future__ import annotations

from collections.abc import Sequence

from redis_counters.errors import CounterError, Unconfirmed
from redis_counters.protocol.exchange.asks import DESTINATION, SOURCE, Ask, Asks
from redis_counters.protocol.exchange.members import unfinished
from redis_counters.protocol.exchange.metrics import SyncMetrics
from redis_counters.protocol.exchange.repair import unseal
from redis_counters.protocol.exchange.route import Route
from redis_counters.protocol.exchange.shard_text import told_of, with_floor
from redis_counters.protocol.exchange.state import BucketSync
from redis_counters.protocol.wire.answers import all_answered, reply_of
from redis_counters.protocol.wire.commands import ErrorReply, NoAnswer, Script, pieces
from redis_counters.protocol.wire.durability import Durability, shortfall
from redis_counters.protocol.wire.marks import NONE, is_full, is_other, is_void, mark_of
from redis_counters.protocol.wire.refusals import error_for
from redis_counters.protocol.wire.replies import BadReply, Reply

MOST_CHANGES = 500  # of a page; those of one version come together, even if they are more
MOST_READ = 250  # shards that one script reads: large ones take it some 30 microseconds each
SHARED = 60.0  # seconds for which the mark is read first, after another exchange has moved it: else both bring the same
MOST_OTHERS = 20  # times in a row that another exchange was there first
FRESH = 240.0  # seconds after which a mark is read again, and the source asked in earnest, if nothing seems to change


class Unjoined(BadReply):
    """A bucket that has joined before does not stamp its changes any more: it lost all that it had."""

    def __init__(self, side: int) -> None:
        super().__init__("the namespace there is new: it was emptied, or it fell back behind its joining")
        self.side = side


def pull(route: Route, bucket: BucketSync, metrics: SyncMetrics, now: float, *, whole: bool = False) -> Asks[bool]:
    """The destination has all that the source had of this bucket at ``now``. Returns whether something came.

    ``whole``: what is known from before is not relied upon.
    """
    whole = whole or bucket.mark is None or now - bucket.looked >= FRESH
    if not whole and bucket.pace.slow and bucket.version is not None:
        (raw,) = all_answered((yield Ask(SOURCE, [route.version(bucket.number)])))
        if raw == bucket.version:
            bucket.caught_up = now
            return False
    if whole or now < bucket.shared_until:
        yield from _read_mark(route, bucket)
    came, others, receipt = False, 0, False
    while True:
        mark = bucket.mark
        assert mark is not None
        (raw,) = all_answered((yield Ask(SOURCE, [route.list_changes(bucket.number, mark, MOST_CHANGES)])))
        listed = reply_of(raw, Script.CHANGES_LIST)
        if listed.word == "UNJOINED":
            raise Unjoined(SOURCE)
        if listed.word == "OTHERS":
            others += 1
            if others >= MOST_OTHERS:
                raise BadReply("what was merged from regions is not known, again and again")
            learn(route, SOURCE, listed)
            continue
        new, more, remade = listed.text(0), listed.number(1), listed.number(2)
        members: Sequence[bytes] = listed.values[3 + remade :]
        if remade:
            settle = route.settle(bucket.number, listed.values[3 : 3 + remade])
            (raw,) = all_answered((yield Ask(SOURCE, [settle])))
            reply_of(raw, Script.DOTS_SETTLE)
        receipt = new == mark  # it was asked with
        if receipt and not members and not more and not whole:
            break
        shards, texts = yield from _told(route, bucket, members, is_full(mark, new), metrics)
        bucket.suspect = bucket.suspect or is_other(mark, new)
        bucket.mark = None  # until it is known what became of it
        merge = route.merge(DESTINATION, bucket.number, mark, new, shards, texts)
        raw, *confirmed = yield Ask(DESTINATION, [merge, *route.confirm(bucket.number)])
        merged = reply_of(raw, Script.ENTRIES_MERGE)
        if merged.word == "UNJOINED":
            raise Unjoined(DESTINATION)
        if merged.word == "OTHER":
            others += 1
            bucket.shared_until = now + SHARED
            if others >= MOST_OTHERS:
                raise BadReply("other exchanges were there first, again and again")
            yield from _read_mark(route, bucket)
            continue
        metrics.merged(route.members(bucket.number, shards), texts, merged.number(1))
        came = came or bool(shards)
        for index, text in merged.refused(2):
            yield from _refused_there(route, bucket, new, shards[index - 1], texts[index - 1], text, metrics)
        check_confirmed(route.durability, confirmed, "the mark at the destination", metrics)
        bucket.mark, whole = new, False
        if not more:
            break
    parsed = mark_of(bucket.mark or b"") if receipt else None  # else the source is asked again, to have its receipt
    bucket.version = b"%d" % parsed.version if parsed is not None else None
    bucket.looked = bucket.caught_up = now
    return came


def _told(
    route: Route, bucket: BucketSync, members: Sequence[bytes], full: bool, metrics: SyncMetrics
) -> Asks[tuple[list[bytes], list[bytes]]]:
    """Return these shards and what the source tells of them, those left out that it tells nothing of."""
    if not members:
        return [], []
    prefix = route.prefix(bucket.number)
    shards = [prefix + member for member in members]
    # What the destination has counted itself it knows, unless it lost it: then it fetches all.
    without = b"" if full else route.destination
    reads = [route.read(SOURCE, bucket.number, some, without) for some in pieces(shards, MOST_READ)]
    confirmation = route.confirm(bucket.number)
    answers = yield Ask(SOURCE, [*reads, *confirmation])
    texts = texts_of(answers[: len(reads)], len(shards))
    check_confirmed(route.durability, answers[len(reads) :], "what the source has told", metrics)
    whole = without_wrong(shards, texts, metrics)
    for n in with_floor(whole):
        bucket.noticed(members[n])
    if all(whole):
        return shards, whole
    kept = [n for n, text in enumerate(whole) if text]
    return [shards[n] for n in kept], [whole[n] for n in kept]


def without_wrong(shards: Sequence[bytes], texts: Sequence[bytes], metrics: SyncMetrics) -> list[bytes]:
    """Return what is told of these shards; what cannot be told of one, an entry or all of it, is told of itself."""
    found = list(texts)
    for n, text in enumerate(texts):
        if b"!" in text:
            found[n], wrong = told_of(text)
            metrics.refuse(shards[n], wrong)
    return found


def texts_of(answers: Sequence[object], expected: int) -> list[bytes]:
    """Return the texts of shards out of the answers to `entries_read`. Raises BadReply, and what Redis refuses."""
    texts: list[bytes] = []
    for raw in answers:
        if isinstance(raw, ErrorReply):
            raise error_for(raw, Script.ENTRIES_READ)
        if isinstance(raw, NoAnswer):
            raise raw.error
        if not isinstance(raw, list):
            raise BadReply(f"expected the texts of shards, got {type(raw).__name__}")
        texts += raw
    if len(texts) != expected or set(map(type, texts)) - {bytes}:
        raise BadReply(f"expected the texts of {expected} shards, got {len(texts)}")
    return texts


def _read_mark(route: Route, bucket: BucketSync) -> Asks[None]:
    """The mark is known that the destination holds, and confirmed there if that is asked for."""
    commands = [route.mark_of(DESTINATION, bucket.number), *route.confirm(bucket.number)]
    raw, *confirmed = all_answered((yield Ask(DESTINATION, commands)))
    if isinstance(raw, ErrorReply):
        raise error_for(raw, None)
    mark = raw if isinstance(raw, bytes) else NONE
    if is_void(mark):
        raise unfinished(route.source)
    check_confirmed(route.durability, confirmed, "the mark at the destination")
    bucket.mark = mark


def began_anew(route: Route, bucket: BucketSync) -> Asks[bool]:
    """Whether the destination holds no mark of this source's that follows from the one that is known.

    So it is where a region was evicted, or has returned, by another exchange; or where it lost what it had.
    """
    (raw,) = all_answered((yield Ask(DESTINATION, [route.mark_of(DESTINATION, bucket.number)])))
    mark = raw if isinstance(raw, bytes) else NONE
    return bucket.mark is not None and is_other(bucket.mark, mark)


def check_confirmed(
    durability: Durability | None, answers: Sequence[object], what: str, metrics: SyncMetrics | None = None
) -> None:
    """Raises Unconfirmed, if it was asked for and is not."""
    if durability is None:
        return
    if isinstance(answers[0], ErrorReply):
        raise error_for(answers[0], None)
    error = shortfall(durability, answers[1])
    if error is not None:
        if metrics is not None:
            metrics.unconfirmed += 1
        raise Unconfirmed(f"{what} is not confirmed, so it does not go on: {error}")


def learn(route: Route, side: int, reply: Reply) -> None:
    """What was merged from these regions is looked at, too."""
    route.learn(side, [reply.text(n) for n in range(len(reply.values))])


def _refused_there(
    route: Route, bucket: BucketSync, mark: bytes, shard: bytes, text: bytes, error: str, metrics: SyncMetrics
) -> Asks[None]:
    """A shard that the destination did not take (or an entry of it) is made to, if it was sealed; else it is told."""
    try:
        opened = yield from unseal(route, DESTINATION, shard)
    except CounterError as other:
        metrics.refuse(shard, str(other).encode())
        return
    if not opened:
        metrics.refuse(shard, error.encode())
        return
    (raw,) = yield Ask(DESTINATION, [route.merge(DESTINATION, bucket.number, mark, b"", [shard], [text])])
    reply = reply_of(raw, Script.ENTRIES_MERGE)
    if reply.word != "OK":  # the mark stands for this shard, too, which nobody would bring any more
        bucket.suspect = True
    elif len(reply.values) > 2:
        metrics.refuse(shard, reply.text(3))
