"""What tests of keyed calls share: either face's calls awaited alike, and what Redis holds besides values."""

from __future__ import annotations

import inspect
from typing import Any

import redis

from redis_counters.protocol.wire.keys import KeySpace
from tests.servers import RealServer

KEYS = KeySpace(b"rc", 16)


async def done(result: Any) -> Any:
    """Return the result of a call of either face."""
    return await result if inspect.isawaitable(result) else result


def users(server: RealServer, name: bytes, shards: int) -> set[bytes]:
    """Return all who like, from the sets in Redis; each in the set of his shard alone."""
    found: set[bytes] = set()
    with redis.Redis(host=server.host, port=server.port) as client:
        for shard in range(shards):
            members: Any = client.smembers(KEYS.users_key(name, shard))
            assert found.isdisjoint(members)
            found |= members
    return found


def records(server: RealServer) -> dict[bytes, dict[bytes, bytes]]:
    """Return all records of keys, by slice."""
    with redis.Redis(host=server.host, port=server.port) as client:
        anything: Any = client
        return {key: anything.hgetall(key) for key in anything.scan_iter(match="*:o:*", count=1000)}


def age_records(server: RealServer, milliseconds: int) -> None:
    """All records are that much older, in the slices where they would lie then."""
    with redis.Redis(host=server.host, port=server.port) as client:
        for key, fields in records(server).items():
            prefix, ttl, number = key.rsplit(b":", 2)
            length = max(-(-int(ttl) // 2), 10_000)
            client.delete(key)
            for digest, record in fields.items():
                text, _, offset = record.rpartition(b" ")
                written = int(number) * length + int(offset) - milliseconds
                older = b"%b:%b:%d" % (prefix, ttl, written // length)
                client.hset(older, digest, b"%b %d" % (text, written % length))
