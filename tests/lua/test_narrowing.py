"""What narrowing's scripts write, refuse and leave alone."""

from __future__ import annotations

import pytest
import redis

from redis_counters.protocol.wire.commands import Script
from tests.lua import keyed
from tests.lua.calls import GENERATION, HIGHEST, REGISTRY, Bucket, key
from tests.lua.regions import join
from tests.lua.scenarios import denied, full_memory, read_only

A, B = key("a"), key("a", 1)
ID = b"gen00.7"


def held(bucket: Bucket, plus: int, minus: int = 0) -> bytes:
    """Something is in the base of shard 1; return its dot."""
    actor = bucket.actor(b"%-12d" % plus)
    bucket.merge(actor, 1, fresh_plus=[(B, plus)], fresh_minus=[(B, minus)] if minus else ())
    bucket.end(actor, B)
    dot = bucket.map(B).dot
    assert dot is not None
    return dot


# -- more shards


def test_the_larger_number_stays(bucket: Bucket) -> None:
    assert bucket.widen(A, key("b"), wanted=4) == ("OK", b"4", b"4")
    assert bucket.widen(A, wanted=2) == ("OK", b"4")
    assert bucket.widen(A, wanted=10) == ("OK", b"10")
    assert bucket.fields(A) == {b"k": b"10", b"d": b"gen00.1"}


def test_a_registry_is_made_where_there_is_none(bucket: Bucket) -> None:
    assert bucket.widen(A, generation=b"") == ("UNKNOWN",)
    assert bucket.everything() == {}
    bucket.widen(A)
    assert bucket.registry() == {b"g": GENERATION, b"n": b"1", b"c": b"0"}


def test_what_is_none_of_ours_is_refused_alone(bucket: Bucket) -> None:
    bucket.client.set(key("b"), "mine")
    word, a, b = bucket.widen(A, key("b"))
    assert (word, a) == ("OK", b"4")
    assert isinstance(b, bytes)
    assert b.startswith(b"!WRONGTYPE")


@pytest.mark.parametrize("wanted", [0, b"", b"x", b"01", b"-1", b"1 "])
def test_a_number_that_is_none_is_refused(bucket: Bucket, wanted: bytes | int) -> None:
    bucket.widen(A)
    before = bucket.everything()
    with pytest.raises(redis.ResponseError, match="BADARG"):
        bucket.widen(A, wanted=wanted)
    with pytest.raises(redis.ResponseError, match="BADARG"):
        bucket.narrow(A, wanted)
    assert bucket.everything() == before


# -- a narrowing begins, and is made void


def test_it_begins_once(bucket: Bucket) -> None:
    """To the same number it goes on under the same id; to another number, or after it was void, it is another."""
    bucket.widen(A)
    word, id, shards = bucket.narrow(A, 2)
    assert (word, shards) == ("OK", b"4")
    assert bucket.narrow(A, 2) == ("OK", id, b"4")
    assert bucket.narrow(A, 3)[1] != id
    again = bucket.narrow(A, 2)[1]
    bucket.widen(A)
    assert len({id, again, bucket.narrow(A, 2)[1]}) == 3


def test_the_number_of_key_shards_is_settled_by_it(bucket: Bucket) -> None:
    """Keys are spread over what is left; where they are spread over more, nothing begins."""
    bucket.widen(A, key("b"))
    bucket.narrow(A, 2)
    assert keyed.settle(bucket, (A, 4)) == ("OK", b"2")
    keyed.settle(bucket, (key("b"), 3))
    assert bucket.narrow(key("b"), 2) == ("KEYED", b"3")
    assert bucket.narrow(key("b"), 3)[0] == "OK"


@pytest.mark.parametrize("told", [2, 4, 9])
@pytest.mark.parametrize("how", ["flush", "widen"])
def test_whoever_tells_of_shards_makes_it_void(bucket: Bucket, how: str, told: int) -> None:
    """Also of a number that is told already, or of a smaller one: they may be about to count there."""
    bucket.widen(A)
    id = bucket.narrow(A)[1]
    assert isinstance(id, bytes)
    if how == "flush":
        bucket.merge(bucket.actor(), 1, widened=[(A, told)])
    else:
        bucket.widen(A, wanted=told)
    assert bucket.apply(A, id, 1) == ("VOID",)
    assert bucket.map(A).shards == max(4, told)


def test_only_what_has_begun_is_applied(bucket: Bucket) -> None:
    bucket.widen(A)
    id = bucket.narrow(A, 2)[1]
    assert isinstance(id, bytes)
    assert bucket.apply(A, id, 1) == ("VOID",)
    assert bucket.apply(A, b"gen00.1", 2) == ("VOID",)
    assert bucket.apply(A, id, 2) == ("OK",)
    assert bucket.map(A).shards == 2
    assert bucket.narrow(A, 2) == ("FEW", b"2")


def test_regions_that_join_make_it_void(bucket: Bucket) -> None:
    """What was copied would be told to them beside what it is of."""
    bucket.widen(A)
    id = bucket.narrow(A)[1]
    assert isinstance(id, bytes)
    join(bucket, A)
    assert bucket.apply(A, id, 1) == ("VOID",)
    assert bucket.map(A).shards == 4


def test_copies_count_in_shard_0(bucket: Bucket) -> None:
    bucket.widen(A)
    id = bucket.narrow(A)[1]
    assert isinstance(id, bytes)
    assert bucket.apply(A, id, 1, b"s.1.gen00.5", HIGHEST, 7, b"s.3.gen00.6", 0, 2) == ("OK",)
    assert bucket.value(A) == HIGHEST - 9


@pytest.mark.parametrize(
    "copies", [(b"s.1.x",), (b"s.1.x", 1), (b"t.1.x", 1, 2), (b"s.1.x", -1, 2), (b"s.1.x", 1, b"y")]
)
def test_what_is_no_copy_is_refused(bucket: Bucket, copies: tuple[bytes | int, ...]) -> None:
    bucket.widen(A)
    id = bucket.narrow(A)[1]
    assert isinstance(id, bytes)
    before = bucket.everything()
    with pytest.raises(redis.ResponseError, match="BADARG"):
        bucket.apply(A, id, 1, *copies)
    assert bucket.everything() == before


# -- seals


def test_a_sealed_shard_is_read_as_before(bucket: Bucket) -> None:
    dot = held(bucket, HIGHEST, 2**53 + 1)
    before = bucket.value(B)
    word, now, since, *rest = bucket.seal(B, ID)
    assert (word, now) == ("OK", since)
    assert rest == [dot, b"%d" % HIGHEST, b"%d" % (2**53 + 1)]
    assert bucket.client.type(B) in (b"string", "string")
    (text,) = bucket.read(B)
    assert isinstance(text, bytes)
    parts = text.split(b" ")
    fields = dict(zip(parts[::2], parts[1::2], strict=True))
    assert int(fields[b"+"]) - int(fields[b"-"]) == before
    assert (fields[b"d"], fields[b"z"]) == (dot, ID)


def test_a_seal_has_the_time_of_its_narrowing(bucket: Bucket) -> None:
    """Sealed again by the same one it is as old as it was; by another, it is new, and opened by that id alone."""
    held(bucket, 5)
    bucket.seal(B, ID)
    old = bucket.client.get(B)
    assert isinstance(old, (bytes, str))
    parts = old.split() if isinstance(old, bytes) else old.encode().split()
    bucket.client.set(B, b" ".join([*parts[:2], b"1000", *parts[3:]]))
    assert bucket.seal(B, ID)[2] == b"1000"
    word, now, since, *rest = bucket.seal(B, b"gen00.8")
    assert (word, now, rest) == ("OK", since, parts[3:])
    assert bucket.unseal(B, ID) == ("OTHER",)
    assert bucket.unseal(B, b"gen00.8") == ("OK",)
    assert bucket.value(B) == 5


def test_who_counts_in_it_is_told_before_anything_is_written(bucket: Bucket) -> None:
    """Whether its slot may be new, was missing, or is known; others in the flush wait too, and their number does."""
    held(bucket, 5)
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(key("fine"), 1)])
    bucket.seal(B, ID)
    before = bucket.everything()
    for items in ({"floored_plus": [(B, 3, 0)]}, {"floored_minus": [(B, 3, 1)]}, {"known_plus": [(B, 3)]}):
        told = bucket.merge(actor, 2, 1, fresh_plus=[(key("new"), 1)], **items)
        assert told == ("SEALED", 2, ID)
    assert bucket.everything() == before
    bucket.unseal(B, ID)
    assert bucket.merge(actor, 2, 1, floored_plus=[(B, 3, 0)])[0] == "OK"
    assert bucket.value(B) == 8
    assert b"~" + actor + b"+" not in bucket.fields(B)


def test_an_absent_shard_is_sealed_too(bucket: Bucket) -> None:
    """And is absent again when it is unsealed."""
    assert bucket.seal(B, ID)[3:] == (b"-", b"0", b"0")
    assert bucket.unseal(B, ID) == ("OK",)
    assert bucket.everything() == {}


def test_what_cannot_be_moved_is_not_sealed(bucket: Bucket) -> None:
    """Slots of who lives or is not folded; further fields of a base; what expires; what is none of ours."""
    held(bucket, 5)
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(B, 1)], floored_minus=[(B, 2, 1)])
    assert bucket.seal(B, ID) == ("BUSY", 3)
    bucket.end(actor, B)
    bucket.client.hset(B, "1+", 5)
    assert bucket.seal(B, ID) == ("ODD", b"1+")
    bucket.client.hdel(B, "1+")
    bucket.client.expire(B, 1000)
    assert bucket.seal(B, ID) == ("EXPIRES",)
    bucket.client.persist(B)
    assert bucket.seal(B, ID)[0] == "OK"
    bucket.client.set(B, "mine")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        bucket.seal(B, ID)
    assert bucket.unseal(B, ID) == ("OTHER",)
    assert bucket.client.get(B) in (b"mine", "mine")


def test_folding_passes_over_a_sealed_shard(bucket: Bucket) -> None:
    """Its slots were folded before, else it would not be sealed: the fold is one that had no answer."""
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 1), (B, 2)])
    bucket.end(actor, A, B)
    bucket.seal(B, ID)
    assert bucket.fold(actor, A, B) == ("OK", 0)
    bucket.client.set(B, "mine")
    assert len(bucket.fold(actor, A, B)) == 4


@pytest.mark.parametrize("command", ["hset", "pexpireat", "get"])
def test_who_may_not_unseal_loses_nothing(bucket: Bucket, command: str) -> None:
    held(bucket, 5)
    bucket.seal(B, ID)
    before = bucket.everything()
    with denied(bucket, command) as other, pytest.raises(redis.RedisError):
        other.unseal(B, ID)
    assert bucket.everything() == before


def test_a_server_that_takes_no_writes_loses_nothing(bucket: Bucket) -> None:
    held(bucket, 5)
    bucket.widen(A)
    for state in (full_memory, read_only):
        before = bucket.everything()
        with state(bucket):
            with pytest.raises(redis.RedisError):
                bucket.seal(B, ID)
            with pytest.raises(redis.RedisError):
                bucket.narrow(A)
            with pytest.raises(redis.RedisError):
                bucket.widen(A, wanted=9)
        assert bucket.everything() == before
        bucket.seal(B, ID)
        before = bucket.everything()
        with state(bucket), pytest.raises(redis.RedisError):
            bucket.unseal(B, ID)
        assert bucket.everything() == before
        bucket.unseal(B, ID)


def test_an_id_is_one_word(bucket: Bucket) -> None:
    for id in (b"", b"a b"):
        for script in (Script.SHARD_SEAL, Script.SHARD_UNSEAL):
            with pytest.raises(redis.ResponseError, match="BADARG"):
                bucket.call(script, [B], [id])
    assert REGISTRY not in bucket.everything()


def test_a_shard_that_was_reset_is_sealed_as_one_that_held_nothing(bucket: Bucket) -> None:
    """If all of it was reset; what was counted since under its floor cannot be moved."""
    for counted, floors, word in (
        ({"+": 12, "-": 2}, {"+": 12, "-": 2}, "OK"),
        ({"+": 12}, {"+": 12}, "OK"),
        ({"+": 13}, {"+": 12}, "ODD"),
        ({"+": 12, "-": 1}, {"+": 12}, "ODD"),
    ):
        bucket.client.delete(A)
        under = {f"~@/gen00.3{sign}": floor for sign, floor in floors.items()}
        bucket.client.hset(A, "d", "gen00.3")
        for field, number in {**counted, **under}.items():
            bucket.client.hset(A, field, number)
        assert bucket.seal(A)[0] == word
        if word == "OK":
            assert bucket.read(A) == (b"z gen00.7 d - + 0 - 0",)
    bucket.client.delete(A)
    bucket.client.hset(A, mapping={"d": "gen00.3", "+": 5, "~@/gen00.2+": 4, "~@/gen00.3+": 5})
    assert bucket.seal(A) == ("ODD", b"~@/gen00.2+")
