"""What a region tells is merged field by field into what is there, with its mark; nothing of it counts twice."""

from __future__ import annotations

import random

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from redis_counters.crdt.regional import RegionalShard, parse_fields, parse_text
from redis_counters.crdt.shard_fields import sum_fields
from redis_counters.protocol.wire import scripts
from redis_counters.protocol.wire.commands import Script
from tests.crdt.test_regional import texts
from tests.lua import keyed, regions
from tests.lua.calls import INDEX, LONG, REGISTRY, Bucket, key
from tests.lua.regions import MARKS, OTHER, PEER, join, merge, merged_key, read, repair, stamps, version
from tests.lua.scenarios import denied, full_memory, read_only

A, B, C = key("a"), key("b"), key("c")
TOLD = b"0 0 us/gen01.0,5"
TOTALS = [1, 9, 10, 2**53, 2**53 + 1, 10**18, 2**63 - 1, 2**63, 10**20, 10**20 + 1, 10**30]


def state(bucket: Bucket, shard: bytes = A) -> RegionalShard:
    return parse_fields(bucket.fields(shard), regions.HOME)


def value(bucket: Bucket, shard: bytes = A) -> int:
    return sum_fields(bucket.fields(shard).items())[0]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(told=st.lists(texts.map(lambda text: text.replace(b" 1790000000000", b" 0")), min_size=1, max_size=4))
def test_it_is_the_merge_of_the_algebra(any_bucket: Bucket, told: list[bytes]) -> None:
    """Of any states in any order, repeated and late: the larger of each field."""
    any_bucket.client.flushall()
    join(any_bucket)
    any_bucket.client.hset(A, mapping={"d": "gen00.7", "gen00.1.own+": 2**62, "1+": 2**62, "~gen00.1.own+": 7})
    expected = state(any_bucket)
    for text in [*told, *reversed(told)]:
        assert repair(any_bucket, (A, text))[0] == "OK"
        expected = expected.merge(parse_text(text))
        assert state(any_bucket).counts == expected.counts
        assert max(state(any_bucket).shards, 1) == max(expected.shards, 1)
        assert value(any_bucket) == expected.value
    before = any_bucket.everything()
    assert repair(any_bucket, *((A, text) for text in told))[2] == 0
    assert any_bucket.everything() == before


def test_totals_are_compared_exactly(bucket: Bucket) -> None:
    """Also beyond int64, and where a double could not tell one from the next."""
    join(bucket)
    chance, highest = random.Random(3), 0
    for _ in range(60):
        told = chance.choice(TOTALS)
        assert repair(bucket, (A, b"0 0 us/gen01.0,%d" % told))[2] == int(told > highest)
        highest = max(highest, told)
        assert bucket.fields(A)[b"@us/gen01.0+"] == b"%d" % highest


@pytest.mark.parametrize("total", TOTALS[:8])
def test_what_is_told_back_counts_beyond_what_is_there_only(bucket: Bucket, total: int) -> None:
    """The live key's slots are compared as a sum, which no double holds."""
    join(bucket)
    bucket.client.hset(A, mapping={"d": "gen00.7", "g.1.o+": total - 1, "+": 2**63 - 1, "1+": 1, "~g.1.o+": 0})
    sum_now = total - 1 + 2**63
    assert repair(bucket, (A, b"0 0 eu/gen00.7,%d" % sum_now))[2] == 0
    assert repair(bucket, (A, b"0 0 eu/gen00.7,%d" % (sum_now + 1)))[2] == 1
    assert value(bucket) == sum_now + 1
    assert bucket.fields(A)[b"@/gen00.7+"] == b"%d" % (sum_now + 1)


def test_the_mark_is_written_with_what_it_stands_for(bucket: Bucket) -> None:
    """And only on top of the mark that the texts were asked with: an old pull changes nothing."""
    join(bucket)
    assert merge(bucket, (A, TOLD), mark=b"i 5 5") == ("OK", b"2", 1)
    before = bucket.everything()
    for since in (b"-", b"i 4 5", b"i 5 4"):
        assert merge(bucket, (A, b"0 0 us/gen01.0,9"), since=since, mark=b"i 9 9") == ("OTHER", b"i 5 5")
        assert repair(bucket, (A, b"0 0 us/gen01.0,9"), since=since) == ("OTHER", b"i 5 5")
    assert bucket.everything() == before
    assert merge(bucket, (A, b"0 0 us/gen01.0,9"), since=b"i 5 5", mark=b"i 9 9") == ("OK", b"3", 1)
    marks = bucket.fields(MARKS)
    assert marks[b"<us"] == b"i 9 9"
    assert abs(int(marks[b"t:us"]) - keyed.now(bucket)) < 60_000
    assert merge(bucket, (A, b"0 0 ap/gen01.0,9"), source=OTHER)[0] == "OK"  # whose mark is another


def test_a_repair_leaves_the_marks(bucket: Bucket) -> None:
    join(bucket)
    assert repair(bucket, (A, TOLD)) == ("OK", b"2", 1)
    assert bucket.fields(MARKS) == {}
    assert value(bucket) == 5


def test_only_what_grew_is_stamped(bucket: Bucket) -> None:
    """In the index of the region that told it, one version for all of them; none where nothing did."""
    join(bucket, C)
    merge(bucket, (A, TOLD), (B, TOLD), mark=b"i 1 1")
    assert stamps(bucket, merged_key()) == {b"0:a": 2, b"0:b": 2}
    assert merge(bucket, (A, TOLD), (B, b"0 0 us/gen01.0,6"), since=b"i 1 1", mark=b"i 2 2") == ("OK", b"3", 1)
    assert stamps(bucket, merged_key()) == {b"0:a": 2, b"0:b": 3}
    assert merge(bucket, (A, TOLD), (B, TOLD), since=b"i 2 2", mark=b"i 3 3") == ("OK", b"3", 0)
    assert version(bucket) == 3
    merge(bucket, (A, b"4 0"), source=OTHER)
    assert stamps(bucket, merged_key(OTHER)) == {b"0:a": 4}
    assert bucket.fields(A)[b"k"] == b"4"
    assert set(stamps(bucket)) - {LONG} == {b"0:c"}


def test_an_empty_text_tells_nothing(bucket: Bucket) -> None:
    """Nor does one without counts make a key."""
    join(bucket)
    assert merge(bucket, (A, b""), (B, b"0 0"), (C, b"1 0"), mark=b"i 9 9") == ("OK", b"1", 0)
    assert bucket.client.exists(A, B, C) == 0
    assert bucket.fields(MARKS)[b"<us"] == b"i 9 9"


def test_the_number_of_shards_is_the_larger(bucket: Bucket) -> None:
    join(bucket)
    for told, there in ((b"4", b"4"), (b"2", b"4"), (b"16", b"16"), (b"0", b"16"), (b"9", b"16")):
        repair(bucket, (A, told + b" 0"))
        assert bucket.fields(A)[b"k"] == there


# --- dots ----------------------------------------------------------------------------------------------------------


def test_a_key_that_was_never_counted_here_has_the_first_dot(bucket: Bucket) -> None:
    """However often it is made; one whose name is in the index was lost, and is a new thing."""
    join(bucket, B)
    repair(bucket, (A, TOLD), (B, TOLD))
    assert (bucket.fields(A)[b"d"], bucket.fields(B)[b"d"]) == (b"gen00.0", b"gen00.1")
    assert bucket.registry()[b"n"] == b"1"
    bucket.client.delete(A, B)
    repair(bucket, (A, TOLD), (B, TOLD))
    assert (bucket.fields(A)[b"d"], bucket.fields(B)[b"d"]) == (b"gen00.0", b"gen00.2")


def test_what_a_fail_over_took_back_counts_once(bucket: Bucket) -> None:
    """Key and stamp are gone; a peer tells what it had; its actors tell it again: in either order the larger counts."""
    for first in ("peer", "actor"):
        bucket.client.flushall()
        join(bucket)
        actor = bucket.actor()
        for who in (first, "peer" if first == "actor" else "actor"):
            if who == "peer":
                repair(bucket, (A, b"0 0 eu/gen00.0,7"))
            else:
                bucket.merge(actor, 1, fresh_plus=[(A, 9)])
        assert value(bucket) == 9
        assert read(bucket, A) == [b"0 0 eu/gen00.0,9"]


def test_what_was_deleted_by_hand_comes_back_beside_what_is_counted_since(bucket: Bucket) -> None:
    join(bucket)
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 7)])
    bucket.client.delete(A)
    bucket.merge(actor, 2, 1, floored_plus=[(A, 9, 7)])
    repair(bucket, (A, b"0 0 eu/gen00.0,7"))
    assert value(bucket) == 9
    assert read(bucket, A) == [b"0 0 eu/gen00.0,7 eu/gen00.2,2"]


def test_the_same_where_only_a_peer_had_told_of_it(bucket: Bucket) -> None:
    """Its name is in the index since the peer gave back what was counted here, so it is not taken for a first one."""
    join(bucket)
    repair(bucket, (A, b"0 0 eu/gen00.0,7"))
    assert set(stamps(bucket)) - {LONG} == {b"0:a"}
    bucket.client.delete(A)
    bucket.merge(bucket.actor(), 1, fresh_plus=[(A, 2)])
    repair(bucket, (A, b"0 0 eu/gen00.0,7"))
    assert value(bucket) == 9


def test_floors_reach_the_region_that_they_are_of(bucket: Bucket) -> None:
    """A peer that has reset takes away what it saw, also of the live key; what is counted later counts."""
    join(bucket)
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 7)], fresh_minus=[(A, 1)])
    repair(bucket, (A, b"0 0 eu/gen00.0,5,1,5,1"))
    assert value(bucket) == 2
    bucket.merge(actor, 2, 1, known_plus=[(A, 10)])
    assert value(bucket) == 5
    assert read(bucket, A, without=b"eu") == [b"0 0 eu/gen00.0,10,1,5,1"]
    assert (stamps(bucket)[b"0:a"], stamps(bucket, merged_key())[b"0:a"]) == (4, 3), "what a peer took away it knows"


# --- expiry --------------------------------------------------------------------------------------------------------


def test_a_counter_expires_at_the_later_time(bucket: Bucket) -> None:
    join(bucket)
    soon, later = keyed.now(bucket) + 100_000, keyed.now(bucket) + 900_000
    for told, there in ((soon, soon), (later, later), (soon, later), (0, later)):
        repair(bucket, (A, b"0 %d us/gen01.0,5" % told))
        assert abs(bucket.client.pttl(A) + keyed.now(bucket) - there) < 60_000


def test_a_time_alone_is_news_too(bucket: Bucket) -> None:
    """But not some milliseconds, of which old servers are not sure."""
    join(bucket)
    at = keyed.now(bucket) + 100_000
    repair(bucket, (A, b"0 %d us/gen01.0,5" % at))
    assert repair(bucket, (A, b"0 %d us/gen01.0,5" % (at + 3)))[2] == 0
    assert repair(bucket, (A, b"0 %d us/gen01.0,5" % (at + 3000)))[2] == 1
    assert repair(bucket, (A, b"0 %d us/gen01.0,5" % (at + 3000)))[2] == 0
    repair(bucket, (B, TOLD))
    assert repair(bucket, (B, b"0 %d us/gen01.0,5" % at))[2] == 1


def test_nothing_is_written_of_a_counter_that_has_expired(bucket: Bucket) -> None:
    """Not if it is gone; if somebody told a later time it has not."""
    join(bucket)
    past = keyed.now(bucket) - 1000
    assert repair(bucket, (A, b"4 %d us/gen01.0,5" % past))[2] == 0
    assert bucket.client.exists(A) == 0
    repair(bucket, (A, b"0 %d us/gen01.0,5" % (past + 900_000)))
    assert repair(bucket, (A, b"0 %d us/gen01.0,6" % past))[2] == 1
    assert value(bucket) == 6
    assert bucket.client.pttl(A) > 0


# --- what is refused ------------------------------------------------------------------------------------------------


def test_what_redis_refuses_is_refused_alone(bucket: Bucket) -> None:
    join(bucket)
    bucket.client.set(B, "mine")
    bucket.client.hset(C, mapping={"d": "x.1", "@us/gen01.0+": "many"})
    word, _, changed, *refused = merge(bucket, (B, TOLD), (A, TOLD), (C, TOLD), mark=b"i 1 1")
    assert (word, changed, refused[0], refused[2]) == ("OK", 1, 1, 3)
    assert str(refused[1]).startswith("b'WRONGTYPE")
    assert refused[3] == b"ERR @us/gen01.0+ is no count"
    assert value(bucket) == 5
    assert bucket.fields(MARKS)[b"<us"] == b"i 1 1"


@pytest.mark.parametrize("spoilt", ["@us/gen01.0+", "@us/gen01.0-", "@/gen00.0+", "gen00.1.own+", "~gen00.1.own+"])
def test_an_entry_that_holds_what_is_no_count_is_refused_alone(bucket: Bucket, spoilt: str) -> None:
    """All of it, whichever of its fields that is; the others of the shard are merged, and it is told."""
    join(bucket)
    bucket.client.hset(A, mapping={"d": "gen00.0", "gen00.1.own+": 5, "@us/gen01.0+": 1, "@ap/gen02.0+": 1})
    bucket.client.hset(A, spoilt, "many")
    text = b"0 0 ap/gen02.0,4 eu/gen00.0,9 us/gen01.0,3,2"
    word, _, changed, *refused = merge(bucket, (A, text), (B, TOLD), mark=b"i 1 1")
    told = spoilt if spoilt[0] == "@" else "@/gen00.0+"
    assert (word, changed, refused) == ("OK", 2, [1, b"ERR %b is no count" % told.encode()])
    fields = bucket.fields(A)
    assert fields[b"@ap/gen02.0+"] == b"4"
    if told == "@/gen00.0+":
        assert fields[b"@us/gen01.0-"] == b"2"
        assert fields.get(b"@/gen00.0+") in (None, b"many")
    else:
        assert fields.get(b"@us/gen01.0-") in (None, b"many")
        assert fields[b"@/gen00.0+"] == b"9"


def test_a_shard_that_is_sealed_is_refused(bucket: Bucket) -> None:
    bucket.seal(A)
    join(bucket)
    assert repair(bucket, (A, TOLD))[2:4] == (0, 1)


@pytest.mark.parametrize("which", [MARKS, INDEX, merged_key()])
def test_a_key_of_another_type_in_their_place_is_told_at_once(bucket: Bucket, which: bytes) -> None:
    join(bucket)
    bucket.client.delete(which)
    bucket.client.set(which, "mine")
    before = bucket.everything()
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        merge(bucket, (A, TOLD), (B, b"0 0 eu/gen00.0,5"))
    assert bucket.everything() == before


def test_who_may_not_write_is_told(bucket: Bucket) -> None:
    join(bucket)
    before = bucket.everything()
    with full_memory(bucket), pytest.raises(redis.ResponseError, match=r"OOM|memory"):
        merge(bucket, (A, TOLD))
    with read_only(bucket), pytest.raises(redis.ResponseError):
        merge(bucket, (A, TOLD))
    for command in ("zadd", "zscore", "zrangebyscore"):
        with denied(bucket, command) as other, pytest.raises(redis.ResponseError):
            merge(other, (A, TOLD), (B, b"0 0 eu/gen00.0,5"))
    assert bucket.everything() == before


@pytest.mark.parametrize(
    "text",
    [
        b"x", b"0", b"0 ", b"-1 0", b"0 -1", b"00 0", b"0 0 us", b"0 0 us/1", b"0 0 us/1,", b"0 0 us/1,-5",
        b"0 0 us/1,05", b"0 0 us/1,1.5", b"0 0 us/1,1,2,3,4,5",
        b"0 0 /1,5", b"0 0 u@s/1,5", b"0 0 us/1,5 x", b"!ERR",
    ],
)  # fmt: skip
def test_what_is_no_text_writes_nothing(bucket: Bucket, text: bytes) -> None:
    join(bucket)
    before = bucket.everything()
    with pytest.raises(redis.ResponseError, match="BADARG entries_merge: text 2 is none"):
        merge(bucket, (A, TOLD), (B, text))
    assert bucket.everything() == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["us", "-", "m"],
        ["us", "-", "m", "eu"],
        ["", "-", "m", "eu", ""],
        ["us", "", "m", "eu", ""],
        ["us", "-", "m", "", ""],
    ],
)
def test_bad_arguments_write_nothing(bucket: Bucket, arguments: list[str]) -> None:
    keys = [REGISTRY, MARKS, INDEX, merged_key(PEER), A]
    with pytest.raises(redis.ResponseError, match="BADARG entries_merge"):
        bucket.ask("EVAL", scripts.text(Script.ENTRIES_MERGE), len(keys), *keys, *arguments)
    assert bucket.everything() == {}


def test_many_at_once(bucket: Bucket) -> None:
    """More shards, and in one of them more entries, than Lua passes to a function."""
    join(bucket)
    names = [key(i) for i in range(4500)]
    assert repair(bucket, *((name, TOLD) for name in names))[2] == len(names)
    assert len(stamps(bucket, merged_key())) == len(names)
    entries = b" ".join(b"us/g.%d,%d" % (n, n + 1) for n in range(1500))
    assert repair(bucket, (A, b"0 0 " + entries))[2] == 1
    assert value(bucket) == sum(range(1501))
    assert repair(bucket, (A, b"0 0 " + entries))[2] == 0
