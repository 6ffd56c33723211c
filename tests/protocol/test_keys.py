"""Where the shards of a counter lie."""

from __future__ import annotations

from collections import Counter

import pytest
from redis.crc import key_slot

from redis_counters.protocol.wire.keys import HASH_SLOTS, KeySpace

NAMES = [b"n%d" % n for n in range(200)]


@pytest.mark.parametrize("buckets", [1, 2, 3, 16, 48, 64, 100])
def test_neighbours_lie_in_different_buckets(buckets: int) -> None:
    keys = KeySpace(b"rc", buckets)
    for name in NAMES:
        found = [keys.bucket(name, shard) for shard in range(2 * buckets)]
        assert sorted(found[:buckets]) == list(range(buckets))
        assert found[buckets:] == found[:buckets]
        assert [keys.shard_key(name, shard)[0] for shard in range(buckets)] == found[:buckets]


@pytest.mark.parametrize("namespace", [b"rc", b"shop", "ü*".encode()])
@pytest.mark.parametrize(("primaries", "most_apart"), [(2, 2), (3, 2), (4, 2), (6, 3)])
def test_primaries_share_the_shards_of_a_counter_evenly(namespace: bytes, primaries: int, most_apart: int) -> None:
    """Of 16 shards in 64 buckets, whatever the counter's name."""
    keys = KeySpace(namespace, 64)
    for name in NAMES:
        hash_slots = [key_slot(keys.shard_key(name, shard)[1]) for shard in range(16)]
        shares = Counter(hash_slot * primaries // HASH_SLOTS for hash_slot in hash_slots)
        assert len(shares) == primaries
        assert max(shares.values()) - min(shares.values()) <= most_apart, (name, shares)
