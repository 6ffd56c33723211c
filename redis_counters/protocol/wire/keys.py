"""Where things are in Redis (schema 1): every key is built here, and nowhere else.

======================= ====== ==================================================================
key                     type   holds
======================= ====== ==================================================================
``<ns>:meta``           hash   schema, buckets, region; when a janitor last began; the regions that this one has joined
``{<ns>:<b>}:a``        hash   the registry of bucket b: actors, generation, issued, cleaned, walked
``{<ns>:<b>}:c:<i>:<n>`` hash  shard i of counter n: its slot map
``{<ns>:<b>}:o:<t>:<s>`` hash  records of keyed increments with a ttl of t ms, written in slice s of time
``{<ns>:<b>}:l:<i>:<n>`` set   of those who like counter n, the users of shard i
``{<ns>:<b>}:b:<n>``     hash  the bounded counter n
``{<ns>:<b>}:x``        zset   which shards of bucket b were changed here, ``<i>:<n>``, and in which version of it
``{<ns>:<b>}:x:<r>``    zset   the same of what was merged from region r
``{<ns>:<b>}:m``        hash   how far bucket b has followed each other region, and each other region bucket b
======================= ====== ==================================================================

The hash tag comes first and holds nothing of the user's, the name comes last and may be any bytes: so all keys of a
bucket share one hash slot, and no two (namespace, shard, name) share a key.
"""

from __future__ import annotations

from binascii import crc_hqx
from zlib import crc32

from redis_counters.errors import UsageError

SCHEMA = 1
DEFAULT_BUCKETS, MAX_BUCKETS = 16, 16_384
HASH_SLOTS = 16_384  # of a Redis Cluster
CLUSTER_BUCKETS = 64  # a default too: about 16 per primary spread evenly


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

    __slots__ = ("_order", "_place", "buckets", "namespace", "registries", "shard0")

    def __init__(self, namespace: bytes, buckets: int) -> None:
        self.namespace = namespace
        self.buckets = buckets
        self.registries = [b"{%b:%d}:a" % (namespace, b) for b in range(buckets)]
        self.shard0 = [self._prefix(b, 0) for b in range(buckets)]
        self._order = _spread(namespace, buckets)
        self._place = {bucket: place for place, bucket in enumerate(self._order)}

    def _prefix(self, bucket: int, shard: int) -> bytes:
        return b"{%b:%d}:c:%d:" % (self.namespace, bucket, shard)

    def bucket(self, name: bytes, shard: int) -> int:
        """Return the bucket of a shard.

        Neighbours lie in different buckets, as long as there are enough of them, and far apart in a cluster: so a
        counter's shards are shared evenly by its primaries.
        """
        first = crc32(name) % self.buckets
        return self._order[(self._place[first] + shard) % self.buckets] if shard else first

    def shard_key(self, name: bytes, shard: int) -> tuple[int, bytes]:
        """Return (bucket, key) of a shard."""
        bucket = self.bucket(name, shard)
        return bucket, (self._prefix(bucket, shard) if shard else self.shard0[bucket]) + name

    def slice_key(self, bucket: int, ttl: int, number: int) -> bytes:
        """Return the key of the records of one slice of time."""
        return b"{%b:%d}:o:%d:%d" % (self.namespace, bucket, ttl, number)

    def index(self, bucket: int) -> bytes:
        """Return the key of the change index: what was changed in this deployment."""
        return index_of(self.registries[bucket])

    def merged(self, bucket: int, region: bytes) -> bytes:
        """Return the key of the change index of what was merged from a region."""
        return b"{%b:%d}:x:%b" % (self.namespace, bucket, region)

    def marks(self, bucket: int) -> bytes:
        """Return the key of the marks."""
        return b"{%b:%d}:m" % (self.namespace, bucket)

    def users_key(self, name: bytes, shard: int) -> bytes:
        """Return the key of the users of a shard; its bucket is that of the shard."""
        return b"{%b:%d}:l:%d:%b" % (self.namespace, self.bucket(name, shard), shard, name)

    def bounded_key(self, name: bytes) -> tuple[int, bytes]:
        """Return (bucket, key) of a bounded counter."""
        bucket = self.bucket(name, 0)
        return bucket, b"{%b:%d}:b:%b" % (self.namespace, bucket, name)


def _spread(namespace: bytes, buckets: int) -> list[int]:
    """Return the buckets in an order in which any few in a row lie evenly over the hash slots of a cluster.

    As the van der Corput sequence does with an interval: half, quarter, three quarters, ...
    """
    by_hash_slot = sorted(range(buckets), key=lambda bucket: crc_hqx(b"%b:%d" % (namespace, bucket), 0) % HASH_SLOTS)
    bits = (buckets - 1).bit_length()
    return [by_hash_slot[n] for n in sorted(range(buckets), key=lambda n: f"{n:0{bits}b}"[::-1])]


def index_of(registry: bytes) -> bytes:
    """Return the key of a bucket's change index, out of that of its registry."""
    return registry[:-1] + b"x"


def shard_of(key: bytes) -> int:
    """Return the number of a shard out of its key."""
    start = key.index(b"}") + 4
    return int(key[start : key.index(b":", start)])


def bucket_of(key: bytes) -> int:
    """Return the number of a bucket out of the key of one of its shards."""
    end = key.index(b"}")
    return int(key[key.rindex(b":", 0, end) + 1 : end])


def is_first(key: bytes) -> bool:
    """True for the key of a shard 0."""
    return key.startswith(b":c:0:", key.index(b"}") + 1)


def name_of(key: bytes) -> bytes:
    """Return the counter's name out of a shard's key."""
    start = key.index(b"}") + 4
    return key[key.index(b":", start) + 1 :]
