"""shard_renew seals what was counted here, and lets what is counted from now on show, whatever peers had of the old."""

from __future__ import annotations

import pytest
import redis

from redis_counters.crdt.regional import RegionalShard, parse_fields
from redis_counters.crdt.shard_fields import sum_fields
from tests.lua import regions
from tests.lua.calls import INDEX, REGISTRY, Bucket, key
from tests.lua.scenarios import denied

A = key("a")


def state(bucket: Bucket) -> RegionalShard:
    return parse_fields(bucket.fields(A))


def value(bucket: Bucket) -> int:
    return sum_fields(bucket.fields(A).items())[0]


def counting(bucket: Bucket) -> bytes:
    """An actor has counted 7 up and 2 down; 30 are in the base; changes are stamped."""
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 7)], fresh_minus=[(A, 2)])
    bucket.client.hset(A, "+", 30)
    regions.join(bucket, A)
    return actor


def test_no_value_changes_and_what_comes_counts(bucket: Bucket) -> None:
    """Also where a peer had more of it; a late copy of a flush changes nothing."""
    actor = counting(bucket)
    dot = bucket.fields(A)[b"d"]
    bucket.client.hset(A, b"@/" + dot + b"+", 100)
    assert value(bucket) == 98
    assert bucket.merge(actor, 2, 1, known_plus=[(A, 10)])[0] == "OK"
    assert value(bucket) == 98, "it does not show"
    assert bucket.renew(A) == ("OK", b"/" + dot + b",100,2")
    assert value(bucket) == 98
    assert bucket.merge(actor, 2, 1, known_plus=[(A, 10)])[0] == "STALE"
    assert bucket.merge(actor, 3, 2, known_plus=[(A, 14)])[0] == "OK"
    assert value(bucket) == 102
    new = bucket.fields(A)[b"d"]
    assert new == b"newer." + bucket.registry()[b"n"]
    assert state(bucket).entry(b"/" + dot) == [100, 2, 0, 0]
    assert state(bucket).entry(b"/" + new) == [4, 0, 0, 0]
    bucket.end(actor, A, base=3)
    assert value(bucket) == 102


def test_an_index_of_another_type_is_told_at_once(bucket: Bucket) -> None:
    """Written but not stamped, it would not be told to others when it is repeated."""
    counting(bucket)
    bucket.client.delete(INDEX)
    bucket.client.set(INDEX, "mine")
    before = bucket.everything()
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        bucket.renew(A)
    assert bucket.everything() == before


def test_who_may_not_stamp_it_is_told_at_once(bucket: Bucket) -> None:
    counting(bucket)
    before = bucket.everything()
    with denied(bucket, "zadd") as other, pytest.raises(redis.ResponseError):
        other.renew(A)
    assert bucket.everything() == before


def test_it_is_told_to_others(bucket: Bucket) -> None:
    """The change is stamped; once, for again there is nothing to be renewed."""
    counting(bucket)
    before = int(bucket.registry()[b"v"])
    bucket.renew(A)
    assert bucket.client.zscore(INDEX, "0:a") == before + 1
    text = regions.read(bucket, A)
    assert bucket.renew(A) == ("OK", b"")
    assert regions.read(bucket, A) == text
    assert int(bucket.registry()[b"v"]) == before + 1


def test_what_only_peers_had_is_sealed_too(bucket: Bucket) -> None:
    """The key fell back to before its first count; others brought back what they had."""
    actor = bucket.actor()
    regions.join(bucket)
    bucket.client.hset(A, mapping={"d": "0", "@/0+": 5, "@us/0+": 3, "~@us/0+": 1})
    assert bucket.renew(A) == ("OK", b"/0,5,0")
    assert value(bucket) == 7
    bucket.merge(actor, 1, fresh_plus=[(A, 1)])
    assert value(bucket) == 8


def test_floors_and_likes_stay(bucket: Bucket) -> None:
    """What a reset has taken away stays away."""
    counting(bucket)
    bucket.reset(A)
    assert value(bucket) == 0
    bucket.renew(A)
    assert value(bucket) == 0
    dot = bucket.fields(A)[b"d"]
    assert state(bucket).entry(b"/" + dot) == [0, 0, 0, 0]


def test_nothing_is_made_of_nothing(bucket: Bucket) -> None:
    bucket.client.hset(REGISTRY, mapping={"g": "gen00", "n": 3, "v": 41})
    before = bucket.everything()
    assert bucket.renew(A) == ("OK", b"")
    assert bucket.everything() == before
    bucket.client.hset(A, mapping={"d": "gen00.2", "@us/0+": 5})
    before = bucket.everything()
    assert bucket.renew(A) == ("OK", b"")
    assert bucket.everything() == before
    bucket.client.delete(A)
    bucket.client.set(A, "sealed gen00.7 1700000000 gen00.2 5 0")
    before = bucket.everything()
    assert bucket.renew(A) == ("OK", b"")
    assert bucket.everything() == before


def test_thousands_of_slots(bucket: Bucket) -> None:
    """More than a command of a script takes at once; sums beyond int64 are exact."""
    slots = {b"g.%d.o+" % n: b"%d" % (2**63 - 1 - n) for n in range(9000)}
    bucket.actor()
    bucket.client.hset(REGISTRY, "v", 1)
    bucket.client.hset(A, "d", "gen00.1")
    bucket.client.hset(A, mapping=slots)  # type: ignore[arg-type]
    before = value(bucket)
    assert bucket.renew(A)[1] == b"/gen00.1,%d,0" % before
    assert value(bucket) == before == sum(map(int, slots.values()))


def test_what_is_no_counter_is_refused(bucket: Bucket) -> None:
    counting(bucket)
    for write in (("HSET", A, "d", "0", "+", 5, "x.y.z+", "junk"), ("SET", A, "junk"), ("RPUSH", A, "junk")):
        bucket.client.delete(A)
        bucket.ask(*write)
        before = bucket.everything()
        with pytest.raises(redis.ResponseError, match=r"no count|WRONGTYPE"):
            bucket.renew(A)
        assert bucket.everything() == before
    with pytest.raises(redis.ResponseError, match="BADARG"):
        bucket.renew(A, generation=b"")
