"""Where things are in Redis (schema 1): every key is built here, and nowhere else.

======================= ====== ==================================================================
key                     type   holds
======================= ====== ==================================================================
``<ns>:meta``           hash   schema, buckets, region; when a janitor last began
``{<ns>:<b>}:a``        hash   the registry of bucket b: actors, generation, issued, cleaned, walked
``{<ns>:<b>}:c:<i>:<n>`` hash  shard i of counter n: its slot map
``{<ns>:<b>}:o:<t>:<s>`` hash  records of keyed increments with a ttl of t ms, written in slice s of time
``{<ns>:<b>}:l:<i>:<n>`` set   of those who like counter n, the users of shard i
======================= ====== ==================================================================

The hash tag comes first and holds nothing of the user's, the name comes last and may be any bytes: so all keys of a
bucket share one hash slot, and no two (namespace, shard, name) share a key.
"""

from __future__ import annotations

from zlib import crc32

from redis_counters.errors import UsageError

SCHEMA = 1
DEFAULT_BUCKETS, MOST_BUCKETS = 16, 16_384


def meta_key(namespace: bytes) -> bytes:
    """Return the key of the namespace's own record."""
    return namespace + b":meta"


def namespace_bytes(namespace: str) -> bytes:
    """Return the namespace as it stands in keys. Raises UsageError for braces and for nothing at all."""
    if not isinstance(namespace, str):
        raise TypeError(f"namespace must be a str, not {type(namespace).__name__}")
    if not namespace or "{" in namespace or "}" in namespace:
        raise UsageError(f"namespace must be a text without braces, got {namespace!r}")
    try:
        return namespace.encode()
    except UnicodeEncodeError:
        raise UsageError(f"namespace must be valid Unicode, got {namespace!r}") from None


class KeySpace:
    """The keys of one namespace with a known number of buckets."""

    __slots__ = ("buckets", "namespace", "registries", "shard0")

    def __init__(self, namespace: bytes, buckets: int) -> None:
        self.namespace = namespace
        self.buckets = buckets
        self.registries = [b"{%b:%d}:a" % (namespace, b) for b in range(buckets)]
        self.shard0 = [self._prefix(b, 0) for b in range(buckets)]

    def _prefix(self, bucket: int, shard: int) -> bytes:
        return b"{%b:%d}:c:%d:" % (self.namespace, bucket, shard)

    def bucket(self, name: bytes, shard: int) -> int:
        """Return the bucket of a shard: neighbours lie in different buckets, as long as there are enough of them."""
        return (crc32(name) + shard) % self.buckets

    def shard_key(self, name: bytes, shard: int) -> tuple[int, bytes]:
        """Return (bucket, key) of a shard."""
        bucket = (crc32(name) + shard) % self.buckets
        return bucket, (self._prefix(bucket, shard) if shard else self.shard0[bucket]) + name

    def slice_key(self, bucket: int, ttl: int, number: int) -> bytes:
        """Return the key of the records of one slice of time."""
        return b"{%b:%d}:o:%d:%d" % (self.namespace, bucket, ttl, number)

    def users_key(self, name: bytes, shard: int) -> bytes:
        """Return the key of the users of a shard; its bucket is that of the shard."""
        return b"{%b:%d}:l:%d:%b" % (self.namespace, self.bucket(name, shard), shard, name)


def shard_of(key: bytes) -> int:
    """Return the number of a shard out of its key."""
    start = key.index(b"}") + 4
    return int(key[start : key.index(b":", start)])


def name_of(key: bytes) -> bytes:
    """Return the counter's name out of a shard's key."""
    start = key.index(b"}") + 4
    return key[key.index(b":", start) + 1 :]
