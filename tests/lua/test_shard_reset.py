"""shard_reset takes away what a shard counts, and nothing that comes later, whatever arrives late or twice."""

from __future__ import annotations

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from redis_counters.crdt.regional import RegionalShard, as_text, parse_fields, parse_text
from redis_counters.crdt.shard_fields import sum_fields
from redis_counters.crdt.slotmap import SlotMap, format_fields
from tests.crdt.test_regional import entries, own_dots, places
from tests.crdt.test_slotmap import slot_maps
from tests.lua import keyed
from tests.lua.calls import INDEX, REGISTRY, Bucket, key
from tests.lua.scenarios import denied, full_memory

A, LIKES = key("a"), keyed.users("a")


def state(bucket: Bucket, shard: bytes = A) -> RegionalShard:
    return parse_fields(bucket.fields(shard))


def value(bucket: Bucket, shard: bytes = A) -> int:
    return sum_fields(bucket.fields(shard).items())[0]


def entries_of(answer: object) -> RegionalShard:
    assert isinstance(answer, bytes)
    return parse_text((b"0 0 " + answer).rstrip())


def counting(bucket: Bucket, *, joined: bool = False) -> bytes:
    """An actor has counted 7 up and 2 down; something is in the base; two like."""
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 7)], fresh_minus=[(A, 2)])
    bucket.client.hset(A, "+", 30)
    keyed.like(bucket, (A, LIKES, b"+", b"ann"), (A, LIKES, b"+", b"bob"))
    if joined:
        bucket.client.hset(REGISTRY, "v", 41)
    return actor


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shard=slot_maps,
    others=st.dictionaries(places, entries),
    own=st.dictionaries(own_dots, entries),
    delete=st.booleans(),
    joined=st.booleans(),
)
def test_it_is_the_reset_of_the_algebra(
    any_bucket: Bucket,
    shard: SlotMap,
    others: dict[bytes, tuple[int, ...]],
    own: dict[bytes, tuple[int, ...]],
    delete: bool,
    joined: bool,
) -> None:
    """Of any shard: it answers what there was; then the same is there with floors as high as the totals."""
    any_bucket.client.flushall()
    any_bucket.actor()
    fields = format_fields(shard)
    for place, entry in [*others.items(), *((b"/" + dot, entry) for dot, entry in own.items())]:
        for prefix, numbers in ((b"@", entry[:2]), (b"~@", entry[2:])):
            fields |= {prefix + place + s: b"%d" % n for s, n in zip((b"+", b"-"), numbers, strict=True) if n}
    if not fields:
        return
    any_bucket.client.hset(A, mapping=fields)  # type: ignore[arg-type]
    if joined:
        any_bucket.client.hset(REGISTRY, "v", 41)
    before = parse_fields({b"d": b"gen00.2", **fields})
    _, told = any_bucket.reset(A, delete=int(delete))
    assert entries_of(told).counts == before.counts
    assert isinstance(told, bytes)
    assert as_text(entries_of(told)) == (b"0 0 " + told).rstrip()
    after = state(any_bucket)
    assert value(any_bucket) == after.value == 0
    if not delete or joined:
        for place in before.places():
            plus, minus = before.entry(place)[:2]
            assert after.entry(place) == [plus, minus, plus, minus]
    if shard.dot not in own:  # else what a peer had of the lost is to be told again, and counts first
        any_bucket.client.hincrby(A, "g.9.late+", 5)
        assert value(any_bucket) == 5


def test_what_was_counted_is_gone_and_what_comes_counts(bucket: Bucket) -> None:
    actor = counting(bucket)
    assert value(bucket) == 37
    word, told = bucket.reset(A)
    assert (word, entries_of(told).value) == ("OK", 37)
    assert value(bucket) == 0
    assert not bucket.client.exists(LIKES)
    assert bucket.merge(actor, 2, 1, known_plus=[(A, 10)])[0] == "OK"
    assert value(bucket) == 3
    assert keyed.answers(keyed.like(bucket, (A, LIKES, b"+", b"ann"))) == [b"1"]
    assert value(bucket) == 4


@pytest.mark.parametrize("delete", [0, 1])
@pytest.mark.parametrize("joined", [False, True])
def test_late_copies_change_nothing(bucket: Bucket, delete: int, joined: bool) -> None:
    """Of a flush that was acknowledged, before folding and after; nor does a second reset."""
    actor = counting(bucket, joined=joined)
    bucket.reset(A, delete=delete)
    assert bucket.merge(actor, 1, fresh_plus=[(A, 7)], fresh_minus=[(A, 2)])[0] == "STALE"
    if bucket.merge(actor, 2, 1, known_plus=[(A, 7)], known_minus=[(A, 2)])[0] == "MISSING":
        assert bucket.merge(actor, 2, 1, floored_plus=[(A, 7, 7)], floored_minus=[(A, 2, 2)])[0] == "OK"
    assert value(bucket) == 0
    bucket.end(actor, A, base=2)
    assert value(bucket) == 0
    assert entries_of(bucket.reset(A, delete=delete)[1]).value == 0
    assert value(bucket) == 0


@pytest.mark.parametrize("delete", [0, 1])
def test_of_nothing_it_makes_nothing(bucket: Bucket, delete: int) -> None:
    bucket.client.hset(REGISTRY, mapping={"g": "gen00", "n": 3, "v": 41})
    before = bucket.everything()
    assert bucket.reset(A, delete=delete) == ("OK", b"")
    assert bucket.everything() == before


def test_a_deleted_key_is_gone(bucket: Bucket) -> None:
    """But for how many shards there are, and keys are spread over: that must not be forgotten."""
    counting(bucket)
    bucket.reset(A, delete=1)
    assert bucket.shards() == {}
    counting_again = bucket.actor(b"otherowner1234")
    bucket.merge(counting_again, 1, fresh_plus=[(A, 7)], widened=[(A, 4)])
    keyed.settle(bucket, (A, 4))
    bucket.narrow(A, 4)
    bucket.reset(A, delete=1)
    fields = bucket.fields(A)
    assert (fields.pop(b"k"), fields.pop(b"o"), list(fields)) == (b"4", b"4", [b"d"])


def test_a_joined_one_stays_all_floor_under_another_dot(bucket: Bucket) -> None:
    """Peers may bring the old entry back, as it was or higher: only what is higher counts."""
    actor = counting(bucket, joined=True)
    old = bucket.fields(A)[b"d"]
    bucket.reset(A, delete=1)
    fields = bucket.fields(A)
    assert fields[b"d"] != old
    assert fields[b"d"] == b"gen00." + bucket.registry()[b"n"]
    assert state(bucket).entry(b"/" + old) == [39, 2, 39, 2]
    assert state(bucket).entry(b"/" + fields[b"d"]) == [0, 0, 0, 0]
    assert bucket.registry()[b"v"] == b"42"
    assert bucket.client.zscore(INDEX, "0:a") == 42
    bucket.merge(actor, 2, 1, known_plus=[(A, 8)])
    assert value(bucket) == 1
    assert state(bucket).entry(b"/" + fields[b"d"])[0] == 1
    bucket.client.hset(A, "@/" + old.decode() + "+", 44)
    assert value(bucket) == 6


def test_changes_are_stamped_where_they_are_followed(bucket: Bucket) -> None:
    """Once for each that takes something away."""
    counting(bucket, joined=True)
    for version in (42, 42):
        bucket.reset(A)
        assert bucket.registry()[b"v"] == b"%d" % version
        assert bucket.client.zscore(INDEX, "0:a") == version


def test_an_index_of_another_type_is_told_at_once(bucket: Bucket) -> None:
    """Written but not stamped, it would not be told to others when it is repeated."""
    counting(bucket, joined=True)
    bucket.client.delete(INDEX)
    bucket.client.set(INDEX, "mine")
    before = bucket.everything()
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        bucket.reset(A)
    assert bucket.everything() == before


@pytest.mark.parametrize("delete", [0, 1])
def test_who_may_not_stamp_it_is_told_at_once(bucket: Bucket, delete: int) -> None:
    counting(bucket, joined=True)
    before = bucket.everything()
    with denied(bucket, "zadd") as other, pytest.raises(redis.ResponseError):
        other.reset(A, delete=delete)
    assert bucket.everything() == before


def test_a_narrowing_is_void_and_a_sealed_shard_stays_sealed(bucket: Bucket) -> None:
    """What a seal holds is counted, and may be copied to shard 0: not after it was reset."""
    bucket.widen(A)
    id = bucket.narrow(A)[1]
    assert isinstance(id, bytes)
    shard = key("a", 1)
    bucket.client.hset(shard, mapping={"d": "gen00.9", "+": 12, "-": 2})
    bucket.seal(shard, id)
    assert entries_of(bucket.reset(shard)[1]).value == 10
    assert bucket.read(shard) == (b"z " + id + b" d - + 0 - 0",)
    bucket.reset(A)
    assert bucket.apply(A, id, 1)[0] == "VOID"
    assert bucket.unseal(shard, id)[0] == "OK"
    assert not bucket.client.exists(shard)


def test_a_floor_that_expires_with_its_key(bucket: Bucket) -> None:
    """A reset does not change when the counter expires."""
    counting(bucket)
    bucket.client.expire(A, 1000)
    bucket.reset(A)
    assert bucket.client.ttl(A) > 900


@pytest.mark.parametrize("delete", [0, 1])
def test_thousands_of_slots(bucket: Bucket, delete: int) -> None:
    """More than a command of a script takes at once; sums beyond int64 are exact."""
    slots = {b"g.%d.o+" % n: b"%d" % (2**63 - 1 - n) for n in range(9000)}
    bucket.actor()
    bucket.client.hset(REGISTRY, "v", 1)
    slots[b"d"] = b"gen00.1"
    bucket.client.hset(A, mapping=slots)  # type: ignore[arg-type]
    _, told = bucket.reset(A, delete=delete)
    assert entries_of(told).value == sum(int(raw) for field, raw in slots.items() if field != b"d")
    assert value(bucket) == 0


def test_what_is_no_counter_is_refused(bucket: Bucket) -> None:
    counting(bucket)
    for write in (
        ("HSET", A, "+", 5, "x.y.z+", "junk"),
        ("HSET", A, "+", 5, "@us/0+", "-1"),
        ("SET", A, "junk"),
        ("RPUSH", A, "junk"),
    ):
        bucket.client.delete(A)
        bucket.ask(*write)
        before = bucket.everything()
        with pytest.raises(redis.ResponseError, match=r"no count|WRONGTYPE"):
            bucket.reset(A)
        assert bucket.everything() == before


def test_without_memory_it_is_done_too(bucket: Bucket) -> None:
    """Whole: who is out of memory may want to delete."""
    counting(bucket)
    with full_memory(bucket):
        bucket.reset(A)
    assert value(bucket) == 0
    with full_memory(bucket):
        bucket.reset(A, delete=1)
    assert not bucket.client.exists(A, LIKES)
