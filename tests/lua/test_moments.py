"""When versions of a bucket were is kept, a few of them: so what a peer lacks has an age, whoever looks."""

from __future__ import annotations

from typing import Any

import pytest

from redis_counters.protocol.exchange.change_index import Moment, moments_in
from redis_counters.protocol.wire.commands import Script
from tests.lua.calls import INDEX, REGISTRY, Bucket, key
from tests.lua.regions import changes, join, merge

A, B = key("a"), key("b")


def moments(bucket: Bucket) -> list[Moment]:
    return list(moments_in(bucket.fields(REGISTRY).get(b"h")))


def version(bucket: Bucket) -> int:
    return int(bucket.fields(REGISTRY)[b"v"])


def known(bucket: Bucket, *told: tuple[int, int]) -> None:
    """Set them: version, and how many seconds ago."""
    now = bucket.client.time()[0]
    bucket.client.hset(REGISTRY, "h", " ".join(f"{number}:{now - ago}" for number, ago in told))


def test_of_each_second_the_first(bucket: Bucket) -> None:
    """Nothing where changes are not stamped."""
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 1)])
    assert moments(bucket) == []
    join(bucket)
    first = version(bucket)
    for seq in range(2, 40):
        bucket.merge(actor, seq, seq - 1, fresh_plus=[(A, seq)])
    now = bucket.client.time()[0]
    found = moments(bucket)
    assert found[0].version == first + 1
    assert len(found) == len({moment.at for moment in found})
    assert all(now - 10 <= moment.at <= now for moment in found)


def test_both_ends_of_a_pause_stay(bucket: Bucket) -> None:
    """Of the others the closest together, for their age, go; sixteen are kept."""
    join(bucket)
    actor = bucket.actor()
    first = 100
    bucket.client.hset(REGISTRY, "v", first)
    told = [(n, 20_000 - n) for n in range(1, 9)] + [(n, 20 - n) for n in range(9, 17)]
    known(bucket, *told)
    bucket.merge(actor, 1, 0, fresh_plus=[(A, 1)])
    found = moments(bucket)
    assert len(found) == 16
    assert found[-1].version == first + 1
    kept = {moment.version for moment in found}
    assert {1, 8, 9} <= kept
    (gone,) = set(range(1, 17)) - kept
    assert 1 < gone < 8, "of those that were long ago, a second apart"


def told_by_a_peer(bucket: Bucket) -> Any:
    return merge(bucket, (A, b"0 0 us/gen01.0,5"))


def reset(bucket: Bucket) -> Any:
    return bucket.call(Script.SHARD_RESET, [REGISTRY, INDEX, A, b"{rc:0}:l:0:a"], [0])


def renewed(bucket: Bucket) -> Any:
    return bucket.call(Script.SHARD_RENEW, [REGISTRY, INDEX, A], [b"newer"])


def floored(bucket: Bucket) -> Any:
    dot = bucket.fields(A)[b"d"]
    return bucket.call(Script.SHARD_FLOOR, [REGISTRY, INDEX, A], [dot, b"9", b"0"])


@pytest.mark.parametrize("change", [told_by_a_peer, reset, renewed, floored])
def test_whatever_changes_a_bucket(bucket: Bucket, change: Any) -> None:
    """The last moment is that of the last version, or of the same second."""
    join(bucket)
    bucket.merge(bucket.actor(), 1, 0, fresh_plus=[(A, 5)])
    changes(bucket)
    known(bucket, (1, 100))
    before = version(bucket)
    change(bucket)
    assert version(bucket) > before
    assert moments(bucket)[-1].version == before + 1
    assert moments(bucket)[-1].at >= bucket.client.time()[0] - 10
