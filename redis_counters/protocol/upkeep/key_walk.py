"""A walk over the names of all keys: it finds the shards of some buckets, on whatever servers they lie."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator

from redis_counters.protocol.wire.commands import Command, pieces
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.protocol.wire.registry import scan, scanned
from redis_counters.protocol.wire.replies import BadReply

NAMES_PER_PAGE = 250  # of keys that are looked at at a time
COMMANDS_PER_STEP = 100  # of one step

Steps = Generator[list[Command], list[object], None]
Visit = Callable[[dict[int, list[bytes]]], Steps]
"""Does something with the shards of one page of names, by bucket; there may be none."""


def walk_once(keys: KeySpace, buckets: Collection[int], visit: Visit) -> Generator[list[Command], list[object], bool]:
    """Hand all shards of these buckets over, a page at a time; some of them more than once.

    Return whether the walk was complete. It was not where a server has failed over meanwhile: another server goes
    through its keys in an order of its own. In a cluster, one server is walked after the other.
    """
    bucket_of, pattern = bucket_finder(keys), _shards_pattern(keys.namespace)
    servers = yield from _servers(keys, buckets)  # before the first walk: a bucket may move to where one has been
    walked: set[bytes] = set()
    for bucket, server in servers.items():
        if server and server in walked:  # one that does not say which it is may be another
            continue
        walked.add(server)
        cursor, begun = b"0", False
        while not begun or cursor != b"0":
            begun = True
            (raw,) = yield [scan(cursor, pattern, NAMES_PER_PAGE, keys.registries[bucket])]
            page = scanned(raw, fields=False)
            if page is None:
                raise BadReply("SCAN has told nothing")
            cursor, names = page
            found: dict[int, list[bytes]] = {}
            for key in names:
                if (of := bucket_of(key)) in servers:
                    found.setdefault(of, []).append(key)
            yield from visit(found)
    return servers == (yield from _servers(keys, buckets))


def _servers(keys: KeySpace, buckets: Collection[int]) -> Generator[list[Command], list[object], dict[int, bytes]]:
    """Return which run of which server has each bucket; nothing, where that may not be asked."""
    found: dict[int, bytes] = {}
    for some in pieces(list(buckets), COMMANDS_PER_STEP):
        answers = yield [Command(None, (), (b"server",), b"INFO", keys.registries[bucket]) for bucket in some]
        found.update((bucket, _run_of(raw)) for bucket, raw in zip(some, answers, strict=True))
    return found


def _run_of(raw: object) -> bytes:
    if isinstance(raw, dict):
        return str(raw.get("run_id", "")).encode()
    found = re.search(rb"run_id:(\w+)", raw) if isinstance(raw, bytes) else None
    return found[1] if found is not None else b""


def _shards_pattern(namespace: bytes) -> bytes:
    """Return the pattern for the names of all shards."""
    return b"{%b:*}:c:*" % re.sub(rb"([\\*?\[\]])", rb"\\\1", namespace)


def bucket_finder(keys: KeySpace) -> Callable[[bytes], int]:
    """Return what finds the bucket of a shard by its key; -1 for a key of another namespace."""
    match = re.compile(rb"\{%b:(\d+)\}:c:\d+:" % re.escape(keys.namespace)).match

    def bucket_of(key: bytes) -> int:
        found = match(key)
        bucket = int(found[1]) if found is not None else -1
        return bucket if bucket < keys.buckets else -1

    return bucket_of
