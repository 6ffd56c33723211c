"""Calls of the scripts of regions, as tests of them want to make them: this deployment is ``eu``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from redis_counters.protocol.exchange.change_index import is_note, names_in
from redis_counters.protocol.wire.commands import Argument, Script
from tests.lua.calls import GENERATION, INDEX, META, REGISTRY, Answer, Bucket

MARKS = b"{rc:0}:m"
HOME, PEER, OTHER = b"eu", b"us", b"ap"


def merged_key(region: bytes = PEER) -> bytes:
    return INDEX + b":" + region


def member(key: bytes) -> bytes:
    """Return what stands for a shard in an index."""
    return key.partition(b":c:")[2]


def join(bucket: Bucket, *shards: bytes, generation: bytes = GENERATION) -> Answer:
    return bucket.call(Script.REGION_JOIN, [REGISTRY, INDEX, *shards], [generation])


def members(bucket: Bucket, region: bytes, id: bytes, *told: bytes) -> Answer:
    return bucket.call(Script.MEMBERS_SET, [META], [region, id, *told])


def set_marks(bucket: Bucket, *values: bytes) -> Answer:
    return bucket.call(Script.MARKS_SET, [MARKS], values)


def forget(bucket: Bucket, *shards: bytes) -> Answer:
    return bucket.call(Script.ENTRIES_FORGET, shards)


def changes(bucket: Bucket, mark: bytes = b"-", most: int = 1000, *, peer: bytes = PEER, others: int = 0) -> Answer:
    keys = [REGISTRY, MARKS, merged_key(peer), INDEX, *(merged_key(b"r%d" % n) for n in range(others))]
    return bucket.call(Script.CHANGES_LIST, keys, [peer, mark, most])


def note(bucket: Bucket, *shards: bytes, new: bool = False) -> int:
    """Note these shards, as a large flush does that has changed them, or made them. Return the version."""
    version = bucket.client.hincrby(REGISTRY, "v", 1)
    head = b"\nm%d" % version if new else b"\nc"
    bucket.client.zadd(INDEX, {b"\n".join([head, *map(member, shards)]): -version})
    bucket.client.hincrby(REGISTRY, "p", len(shards))
    return int(version)


def enter(bucket: Bucket, most: int = 1000) -> Answer:
    return bucket.call(Script.NOTES_ENTER, [REGISTRY, INDEX], [most])


def beat(
    bucket: Bucket, source: bytes = PEER, by: bytes = b"here.1", clock: Argument = 1, every: Argument = 60000
) -> Answer:
    return bucket.call(Script.EXCHANGE_BEAT, [MARKS], [source, by, clock, every])


def notes(bucket: Bucket) -> dict[int, list[bytes]]:
    """Return what is noted, by version."""
    found: Any = bucket.client.zrangebyscore(INDEX, "-inf", "(0", withscores=True)
    return {-int(score): names_in(note) for note, score in found}


def told(answer: Answer) -> tuple[bytes, bool, list[bytes]]:
    """Return the mark, whether there are more, and the members, of an answer of changes_list."""
    word, mark, more, remade, *found = answer
    assert word == "OK"
    assert isinstance(mark, bytes)
    return mark, more == b"1", [name for name in found[int(remade) :] if isinstance(name, bytes)]


def to_settle(answer: Answer) -> list[bytes]:
    """Return the members in an answer of changes_list that are to get another dot."""
    _, _, _, remade, *found = answer
    return [name for name in found[: int(remade)] if isinstance(name, bytes)]


def settle(bucket: Bucket, *shards: bytes) -> Answer:
    return bucket.call(Script.DOTS_SETTLE, [REGISTRY, INDEX, *shards])


def read(
    bucket: Bucket, *shards: bytes, region: bytes = HOME, without: bytes = b"", shown: bool = False
) -> list[bytes]:
    texts = bucket.call(Script.ENTRIES_READ, [INDEX, *shards], [region, without, int(shown)])
    return [text for text in texts if isinstance(text, bytes)]


def merge(
    bucket: Bucket,
    *texts: tuple[bytes, bytes],
    since: bytes = b"-",
    mark: bytes = b"there 1 1",
    source: bytes = PEER,
    region: bytes = HOME,
) -> Answer:
    """``texts``: shards and what is told of them."""
    keys = [REGISTRY, MARKS, INDEX, merged_key(source), *(key for key, _ in texts)]
    return bucket.call(Script.ENTRIES_MERGE, keys, [source, since, mark, region, *(text for _, text in texts)])


def repair(bucket: Bucket, *texts: tuple[bytes, bytes], since: bytes | None = None, source: bytes = PEER) -> Answer:
    """``since``: else the mark that is held."""
    if since is None:
        since = bucket.fields(MARKS).get(b"<" + source, b"-")
    return merge(bucket, *texts, since=since, mark=b"", source=source)


def digest(bucket: Bucket, *shards: bytes, region: bytes = HOME) -> Answer:
    return bucket.call(Script.ENTRIES_DIGEST, shards, [region])


def drop(
    bucket: Bucket,
    *shards: bytes,
    peers: Sequence[bytes] = (),
    kept: Sequence[bytes] = (),
    indexes: Sequence[bytes] = (),
) -> Answer:
    """``indexes``: those of other regions' changes."""
    args: list[Argument] = [1 + len(indexes), len(peers), *peers, len(kept), *kept]
    return bucket.call(Script.ENTRIES_DROP, [REGISTRY, MARKS, INDEX, *indexes, *shards], args)


def stamps(bucket: Bucket, index: bytes = INDEX) -> dict[bytes, int]:
    """Return the shards in an index and their versions; what is noted is entered before."""
    if index == INDEX and notes(bucket):
        enter(bucket, sys.maxsize)
    found: Any = bucket.client.zrange(index, 0, -1, withscores=True)
    return {name: int(score) for name, score in found if not is_note(name)}


def version(bucket: Bucket) -> int:
    return int(bucket.registry()[b"v"])
