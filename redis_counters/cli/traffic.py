"""What changes in a region: how many entries, how large, how fast; and how many of them another has not pulled yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from redis_counters.cli.region_facts import Facts
from redis_counters.drivers.transport import Transport
from redis_counters.protocol.answers import list_of
from redis_counters.protocol.commands import Command, ErrorReply, Script, hmget, pieces
from redis_counters.protocol.exchange.notes import ask_for_notes, noted_in
from redis_counters.protocol.keys import KeySpace
from redis_counters.protocol.refusals import error_for

_LOOKED_UP = 1_000  # names at a time
_SAMPLE = 10  # of a bucket's entries, those that changed last


@dataclass(frozen=True, slots=True)
class Traffic:
    """``bytes``: what an entry takes on its way, on average; None if there is none. ``per_second``: that change."""

    bytes: float | None = None
    per_second: float | None = None


def behind(source: Facts, server: Transport, peer: str, here: Facts) -> int:
    """Return how many entries changed in the source, or came there from others, that ``here`` has not pulled.

    Cost: 2 round trips, O(buckets x regions + names in notes).
    """
    assert source.keys is not None
    keys = source.keys
    counts: list[Command] = []
    looks: list[tuple[int, Command]] = []  # where names are only noted: version from which on they are counted anyway
    notes = server.ask([ask_for_notes(keys.index(number)) for number in range(len(source.buckets))])
    for number, (bucket, raw) in enumerate(zip(source.buckets, notes, strict=True)):
        mark = here.buckets[number].marks.get(source.region) if here.buckets else None
        known = mark is not None and mark.incarnation.startswith(bucket.generation)
        least = mark.version if known and mark is not None else 0
        indexes = [keys.index(number)]
        indexes += [keys.merged(number, name.encode()) for name in source.members if name not in (peer, source.region)]
        counts += [Command(None, (index,), (b"(%d" % least, b"+inf"), b"ZCOUNT") for index in indexes]
        some = pieces(sorted(noted_in(raw)), _LOOKED_UP)
        looks += [(least, Command(None, (keys.index(number),), names, b"ZMSCORE")) for names in some]
    answers = server.ask([*counts, *(look for _, look in looks)])
    only_noted = 0
    for (least, look), raw in zip(looks, answers[len(counts) :], strict=True):
        only_noted += sum(_number(score or 0) <= least for score in list_of(raw, len(look.args)))
    return sum(map(_number, answers[: len(counts)])) + only_noted


class Reached(NamedTuple):
    """By bucket: the version of its last change, and how many names are noted and not in its change index yet."""

    versions: Sequence[int]
    noted: Sequence[int]


def reached(keys: KeySpace, server: Transport) -> Reached:
    """Return how far a region is. Cost: 1 round trip."""
    answers = server.ask([hmget(registry, (b"v", b"p")) for registry in keys.registries])
    return Reached(*zip(*([_number(raw or 0) for raw in list_of(answer, 2)] for answer in answers), strict=True))


def traffic(keys: KeySpace, server: Transport, region: str, since: Reached, seconds: float) -> Traffic:
    """Return what has changed since so many seconds ago, when the region was so far. Cost: 3 round trips."""
    indexes = [keys.index(bucket) for bucket in range(keys.buckets)]
    more = sum(max(now - then, 0) for now, then in zip(reached(keys, server).noted, since.noted, strict=True))
    asked = [
        Command(None, (x,), (b"(%d" % v, b"+inf"), b"ZCOUNT") for x, v in zip(indexes, since.versions, strict=True)
    ]
    asked += [Command(None, (x,), (b"+inf", b"(0", b"LIMIT", 0, _SAMPLE), b"ZREVRANGEBYSCORE") for x in indexes]
    answers = server.ask(asked)
    counts, samples = answers[: keys.buckets], answers[keys.buckets :]
    members: list[list[bytes]] = [
        [member for member in sample if isinstance(member, bytes)] if isinstance(sample, list) else []
        for sample in samples
    ]
    reads = [
        Command(Script.ENTRIES_READ, [_key(keys, member) for member in some], (region.encode(), b""))
        for some in members
        if some
    ]
    texts = [text for answer in (server.ask(reads) if reads else []) for text in list_of(answer)]
    told = [len(text) for text in texts if isinstance(text, bytes) and text]
    names = [len(member) for some in members for member in some]
    size = sum(told) / len(told) + sum(names) / len(names) if told else None
    return Traffic(size, (sum(map(_number, counts)) + more) / seconds if seconds else None)


def _key(keys: KeySpace, member: bytes) -> bytes:
    number, _, name = member.partition(b":")
    return keys.shard_key(name, int(number))[1]


def _number(raw: object) -> int:
    if isinstance(raw, ErrorReply):
        raise error_for(raw, None)
    return int(raw) if isinstance(raw, (int, float, bytes)) else 0
