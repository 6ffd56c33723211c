"""The changes of a region: how many entries, how large, how fast; and how many of them a peer has not pulled yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from redis_counters.cli.regional.facts import Facts
from redis_counters.drivers.transport import Transport
from redis_counters.protocol.exchange.change_index import ask_for_notes, noted_in
from redis_counters.protocol.exchange.shard_text import split_error
from redis_counters.protocol.wire.answers import list_of
from redis_counters.protocol.wire.commands import Command, ErrorReply, Script, hmget, pieces
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.protocol.wire.refusals import error_for

_LOOKED_UP = 1_000  # names at a time
_SAMPLE = 10  # of a bucket's entries, those that changed last


@dataclass(frozen=True, slots=True)
class Traffic:
    """``bytes``: the size of an entry in flight, on average; None if there is none. ``per_second``: how many change."""

    bytes: float | None = None
    per_second: float | None = None


def behind(source: Facts, server: Transport, peer: str, here: Facts) -> list[int]:
    """Return, by bucket, how many entries changed in the source, or came there from others, that ``here`` lacks.

    Cost: 2 round trips, O(buckets x regions + names in notes).
    """
    assert source.keys is not None
    since = []
    for number, bucket in enumerate(source.buckets):
        mark = here.buckets[number].marks.get(source.region) if here.buckets else None
        since.append(bucket.covered(mark) or 0)
    others = [name.encode() for name in source.members if name not in (peer, source.region)]
    return _changed(source.keys, server, since, others)


def versions(keys: KeySpace, server: Transport) -> list[int]:
    """Return the versions of all buckets. Cost: 1 round trip."""
    answers = server.ask([hmget(registry, (b"v",)) for registry in keys.registries])
    return [_number(list_of(answer, 1)[0] or 0) for answer in answers]


def _changed(keys: KeySpace, server: Transport, since: Sequence[int], others: Sequence[bytes] = ()) -> list[int]:
    """Return how many entries of each bucket have changed since these versions: there, or merged from these others.

    A change that is only noted is looked up by name: it may be in several notes, and in the change index too.
    """
    counts: list[Command] = []
    looks: list[tuple[int, int, Command]] = []  # bucket; version from which on a name is counted anyway
    notes = server.ask([ask_for_notes(keys.index(bucket), least) for bucket, least in enumerate(since)])
    for bucket, (least, raw) in enumerate(zip(since, notes, strict=True)):
        index = keys.index(bucket)
        indexes = [index, *(keys.merged(bucket, name) for name in others)]
        counts += [Command(None, (each,), (b"(%d" % least, b"+inf"), b"ZCOUNT") for each in indexes]
        some = pieces(sorted(noted_in(raw)), _LOOKED_UP)
        looks += [(bucket, least, Command(None, (index,), names, b"ZMSCORE")) for names in some]
    answers = server.ask([*counts, *(look for _, _, look in looks)])
    each = len(counts) // max(1, len(since))
    changed = [sum(map(_number, answers[each * bucket : each * (bucket + 1)])) for bucket in range(len(since))]
    for (bucket, least, look), raw in zip(looks, answers[len(counts) :], strict=True):
        changed[bucket] += sum(_number(score or 0) <= least for score in list_of(raw, len(look.args)))
    return changed


def traffic(keys: KeySpace, server: Transport, region: str, since: Sequence[int], seconds: float) -> Traffic:
    """Return the changes since these versions, which were those of so many seconds ago. Cost: 4 round trips."""
    changed = sum(_changed(keys, server, since))
    indexes = [keys.index(bucket) for bucket in range(keys.buckets)]
    asked = [Command(None, (x,), (b"+inf", b"(0", b"LIMIT", 0, _SAMPLE), b"ZREVRANGEBYSCORE") for x in indexes]
    samples = server.ask(asked)
    members = [
        [member for member in sample if isinstance(member, bytes)] if isinstance(sample, list) else []
        for sample in samples
    ]
    reads = [
        Command(Script.ENTRIES_READ, [index, *(_key(keys, member) for member in some)], (region.encode(), b"", 1))
        for index, some in zip(indexes, members, strict=True)
        if some
    ]
    texts = [text for answer in (server.ask(reads) if reads else []) for text in list_of(answer)]
    sizes = [len(split_error(text)[0]) for text in texts if isinstance(text, bytes) and text]
    names = [len(member) for some in members for member in some]
    size = sum(sizes) / len(sizes) + sum(names) / len(names) if sizes else None
    return Traffic(size, changed / seconds if seconds else None)


def _key(keys: KeySpace, member: bytes) -> bytes:
    number, _, name = member.partition(b":")
    return keys.shard_key(name, int(number))[1]


def _number(raw: object) -> int:
    if isinstance(raw, ErrorReply):
        raise error_for(raw, None)
    return int(raw) if isinstance(raw, (int, float, bytes)) else 0
