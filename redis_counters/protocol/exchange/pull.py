"""Pulling: the destination gets what has changed at the source since its mark, and the mark that says so.

1. The source lists its changes since the mark that the destination holds, a page of them, and the mark that stands for
   having these too (`changes_list`). Asking with a mark also acknowledges it. A shard that was lost there, and made
   again, is given another dot (`dots_settle`), and is among the next changes.
2. The source sends the texts of the changed shards (`entries_read`), all entries of a shard together.
3. The destination takes the larger of each count, and the new mark, in one step, and only if it still holds the mark
   that the source was asked with (`entries_merge`). If another exchange has moved the mark, it is read again.

This may be killed anywhere, repeated, late: what is merged is the larger of two, and the mark moves only together with
what it stands for. With `durability`, a text goes on only once it is confirmed at the source, and a mark is used only
once it is confirmed at the destination.
"""

from __future__ import annotations

from collections.abc import Sequence

from redis_counters.errors import CounterError, Unconfirmed
from redis_counters.protocol.exchange.asks import DESTINATION, SOURCE, Ask, Asks, ask, reply_from, run
from redis_counters.protocol.exchange.members import unfinished
from redis_counters.protocol.exchange.metrics import SyncMetrics
from redis_counters.protocol.exchange.repair import unseal
from redis_counters.protocol.exchange.route import Route
from redis_counters.protocol.exchange.shard_text import split_error, with_floor
from redis_counters.protocol.exchange.state import BucketSync
from redis_counters.protocol.wire.commands import ErrorReply, NoAnswer, Script, pieces
from redis_counters.protocol.wire.durability import Durability, shortfall
from redis_counters.protocol.wire.marks import NONE, is_full, is_other, is_void, mark_of
from redis_counters.protocol.wire.refusals import error_for
from redis_counters.protocol.wire.replies import BadReply

MAX_CHANGES = 500  # of a page; those of one version come together, even if they are more
MAX_READ = 250  # shards that one script reads: large ones take it some 30 microseconds each
MAX_OTHERS = 20  # times in a row that another exchange was there first
SHARED_S = 60.0  # for which the mark is read first, after another exchange has moved it: else both bring the same
FRESH_S = 240.0  # after which a mark is read again, and the source asked for changes, if nothing seems to change


def pull(route: Route, bucket: BucketSync, metrics: SyncMetrics, now: float) -> Asks[bool]:
    """The destination has all that the source had of this bucket at ``now`` (seconds). True if something came."""
    whole = bucket.mark is None or now - bucket.looked >= FRESH_S  # nothing known from before is relied upon
    if not whole and bucket.pace.slow and bucket.version is not None:
        (raw,) = yield from ask(SOURCE, route.version(bucket.number))
        if raw == bucket.version:
            bucket.caught_up = now
            return False
    if whole or now < bucket.shared_until:
        yield from _read_mark(route, bucket)
    came, others, acknowledged = False, 0, False
    while True:
        mark = bucket.mark
        assert mark is not None
        listed = yield from run(SOURCE, route.list_changes(bucket.number, mark, MAX_CHANGES))
        if listed.word == "OTHERS":
            others += 1
            if others >= MAX_OTHERS:
                raise BadReply("what was merged from regions is not known, again and again")
            route.learn(SOURCE, listed)
            continue
        new, more, remade = listed.text(0), listed.number(1), listed.number(2)
        members: Sequence[bytes] = listed.values[3 + remade :]
        if remade:
            yield from run(SOURCE, route.settle(bucket.number, listed.values[3 : 3 + remade]))
        acknowledged = new == mark  # it was asked with
        if acknowledged and not members and not more and not whole:
            break
        shards, texts = yield from _read(route, bucket, members, is_full(mark, new), metrics)
        bucket.suspect = bucket.suspect or is_other(mark, new)
        bucket.mark = None  # until the outcome is known
        merge = route.merge(DESTINATION, bucket.number, mark, new, shards, texts)
        raw, *confirmed = yield Ask(DESTINATION, [merge, *route.confirm(bucket.number)])
        merged = reply_from(DESTINATION, raw, merge)
        if merged.word == "OTHER":
            others += 1
            bucket.shared_until = now + SHARED_S
            if others >= MAX_OTHERS:
                raise BadReply("other exchanges were there first, again and again")
            yield from _read_mark(route, bucket)
            continue
        metrics.merged(route.members(bucket.number, shards), texts, merged.number(1))
        came = came or bool(shards)
        for index, text in merged.refused(2):
            yield from _merge_refused(route, bucket, new, shards[index - 1], texts[index - 1], text, metrics)
        check_confirmed(route.durability, confirmed, "the mark at the destination", metrics)
        bucket.mark, whole = new, False
        if not more:
            break
    parsed = mark_of(bucket.mark or b"") if acknowledged else None  # else the source is asked again, to acknowledge it
    bucket.version = b"%d" % parsed.version if parsed is not None else None
    bucket.looked = bucket.caught_up = now
    return came


def _read(
    route: Route, bucket: BucketSync, members: Sequence[bytes], full: bool, metrics: SyncMetrics
) -> Asks[tuple[list[bytes], list[bytes]]]:
    """Return these shards and their texts at the source; without those that have none."""
    if not members:
        return [], []
    prefix = route.prefix(bucket.number)
    shards = [prefix + member for member in members]
    # The destination knows its own counts, unless it lost them: then it fetches all.
    without = b"" if full else route.destination
    reads = [route.read(SOURCE, bucket.number, some, without) for some in pieces(shards, MAX_READ)]
    answers = yield Ask(SOURCE, [*reads, *route.confirm(bucket.number)])
    texts = texts_of(answers[: len(reads)], len(shards))
    check_confirmed(route.durability, answers[len(reads) :], "what the source has told", metrics)
    whole = without_wrong(shards, texts, metrics)
    for n in with_floor(whole):
        bucket.noticed(members[n])
    kept = [n for n, text in enumerate(whole) if text]
    return [shards[n] for n in kept], [whole[n] for n in kept]


def without_wrong(shards: Sequence[bytes], texts: Sequence[bytes], metrics: SyncMetrics) -> list[bytes]:
    """Return the texts of these shards without what is wrong in them; each error is reported."""
    found = list(texts)
    for n, text in enumerate(texts):
        if b"!" in text:
            found[n], wrong = split_error(text)
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
    """The mark that the destination holds is known, and confirmed there if that is asked for."""
    raw, *confirmed = yield from ask(
        DESTINATION, route.mark_of(DESTINATION, bucket.number), *route.confirm(bucket.number)
    )
    mark = held_mark(raw, route.source)
    check_confirmed(route.durability, confirmed, "the mark at the destination")
    bucket.mark = mark


def held_mark(raw: object, of: bytes) -> bytes:
    """Return the mark for a region out of the answer to ``HGET``. Raises Void, and what Redis refuses."""
    if isinstance(raw, ErrorReply):
        raise error_for(raw, None)
    mark = raw if isinstance(raw, bytes) else NONE
    if is_void(mark):
        raise unfinished(of)
    return mark


def began_anew(route: Route, bucket: BucketSync) -> Asks[bool]:
    """Return whether the destination's mark does not follow from the one that is known here.

    So it is after another exchange has evicted or added the region, and where the destination lost its data.
    """
    (raw,) = yield from ask(DESTINATION, route.mark_of(DESTINATION, bucket.number))
    mark = raw if isinstance(raw, bytes) else NONE
    return bucket.mark is not None and is_other(bucket.mark, mark)


def check_confirmed(
    durability: Durability | None, answers: Sequence[object], what: str, metrics: SyncMetrics | None = None
) -> None:
    """Raises Unconfirmed if confirmation was asked for, and did not come."""
    if durability is None:
        return
    if isinstance(answers[0], ErrorReply):
        raise error_for(answers[0], None)
    error = shortfall(durability, answers[1])
    if error is not None:
        if metrics is not None:
            metrics.unconfirmed += 1
        raise Unconfirmed(f"{what} is not confirmed, so it does not go on: {error}")


def _merge_refused(
    route: Route, bucket: BucketSync, mark: bytes, shard: bytes, text: bytes, error: str, metrics: SyncMetrics
) -> Asks[None]:
    """Merge a shard again that the destination refused, if it was sealed; else report its error."""
    try:
        opened = yield from unseal(route, DESTINATION, shard)
    except CounterError as other:
        metrics.refuse(shard, str(other).encode())
        return
    if not opened:
        metrics.refuse(shard, error.encode())
        return
    reply = yield from run(DESTINATION, route.merge(DESTINATION, bucket.number, mark, b"", [shard], [text]))
    if reply.word != "OK":  # the mark stands for this shard, too: nothing else would bring it
        bucket.suspect = True
    elif len(reply.values) > 2:
        metrics.refuse(shard, reply.text(3))
