"""A bucket joins once, and knows all its shards then; a deployment bears one name among the regions."""

from __future__ import annotations

import pytest
import redis

from redis_counters.protocol.wire import scripts
from redis_counters.protocol.wire.commands import Script
from tests.lua.calls import GENERATION, INDEX, LONG, META, REGISTRY, Bucket, key
from tests.lua.regions import MARKS, changes, forget, join, members, set_marks, stamps, told
from tests.lua.scenarios import full_memory, opened_namespace, read_only

A, B, C = key("a"), key("b"), key("c")


def known(bucket: Bucket) -> dict[bytes, int]:
    found = stamps(bucket)
    assert found.pop(LONG) == 0
    return found


# --- region_join ---------------------------------------------------------------------------------------------------


def test_a_registry_is_made_where_there_is_none(bucket: Bucket) -> None:
    assert join(bucket) == ("OK", b"1")
    assert bucket.registry() == {b"g": GENERATION, b"n": b"0", b"c": b"0", b"v": b"1"}


def test_one_that_is_there_stays(bucket: Bucket) -> None:
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 1)])
    before = bucket.registry()
    assert join(bucket, A, generation=b"gen77") == ("OK", b"1")
    assert bucket.registry() == {**before, b"v": b"1"}
    assert bucket.merge(actor, 2, 1, known_plus=[(A, 2)]) == ("OK", 2)


def test_shards_are_stamped_unless_they_are(bucket: Bucket) -> None:
    """However often and in however many parts it is done, and whatever is counted meanwhile."""
    join(bucket, A)
    bucket.merge(bucket.actor(), 1, fresh_plus=[(A, 1), (B, 1)])
    assert known(bucket) == {b"0:a": 2, b"0:b": 2}
    assert join(bucket, A, B, C) == ("OK", b"3")
    assert known(bucket) == {b"0:a": 2, b"0:b": 2, b"0:c": 3}
    join(bucket)
    assert known(bucket) == {b"0:a": 2, b"0:b": 2, b"0:c": 3}


def test_a_name_may_hold_anything(bucket: Bucket) -> None:
    names = [b"0:", b"0:a:b", b"0:{x}", b"12:\x00\xff \r\n", "0:\u00e9".encode()]
    shards = [b"{rc:0}:c:" + name for name in names]
    join(bucket, *shards)
    assert set(known(bucket)) == set(names)
    assert set(told(changes(bucket))[2]) == set(names)


def test_no_stamp_of_a_registry_that_was_lost_is_ahead(bucket: Bucket) -> None:
    """Else what changes now would be below marks that it is told by."""
    join(bucket)
    for seq in range(1, 9):
        bucket.merge(bucket.actor(b"owner%09d" % seq), 1, fresh_plus=[(A, 1)])
    bucket.client.delete(REGISTRY)
    assert join(bucket, A, B, generation=b"gen77") == ("OK", b"10")
    assert known(bucket) == {b"0:a": 9, b"0:b": 10}
    mark, _, members_told = told(changes(bucket))
    assert sorted(members_told) == [b"0:a", b"0:b"]
    bucket.merge(bucket.actor(), 1, fresh_plus=[(A, 1)])
    assert told(changes(bucket, mark))[2] == [b"0:a"]


def test_a_small_index_is_not_packed(bucket: Bucket) -> None:
    """A change of one that is takes time by its size; and what keeps it from that is told to nobody."""
    join(bucket, A)
    assert bucket.client.object("encoding", INDEX) == b"skiplist"
    assert told(changes(bucket))[2] == [b"0:a"]


def test_many_shards(bucket: Bucket) -> None:
    join(bucket, *(key(i) for i in range(3000)))
    assert len(known(bucket)) == 3000
    assert set(known(bucket).values()) == {1}


def test_who_may_not_write_is_told(bucket: Bucket) -> None:
    with full_memory(bucket), pytest.raises(redis.ResponseError, match=r"OOM|memory"):
        join(bucket, A)
    with read_only(bucket), pytest.raises(redis.ResponseError):
        join(bucket, A)
    bucket.client.set(INDEX, "mine")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        join(bucket, A)
    assert set(bucket.everything()) == {INDEX}


# --- members_set ---------------------------------------------------------------------------------------------------


def test_it_bears_its_name_for_good(bucket: Bucket) -> None:
    assert members(bucket, b"eu", b"id1") == ("OK", b"eu", b"id1")
    assert members(bucket, b"eu", b"id2") == ("OK", b"eu", b"id1")
    before = bucket.everything()
    assert members(bucket, b"us", b"id1", b"us", b"id1", b"member") == ("BOUND", b"eu", b"id1")
    assert bucket.everything() == before


def test_the_default_name_is_replaced_if_it_has_not_joined(bucket: Bucket) -> None:
    opened_namespace(bucket)
    assert bucket.fields(META)[b"region"] == b"main"
    assert members(bucket, b"eu", b"id1") == ("OK", b"eu", b"id1")
    assert bucket.fields(META) == {b"schema": b"1", b"buckets": b"16", b"region": b"eu", b"id": b"id1"}


def test_one_that_was_chosen_is_not(bucket: Bucket) -> None:
    bucket.call(Script.NAMESPACE_OPEN, [META], [1, 16, b"ap"])
    assert members(bucket, b"eu", b"id1") == ("BOUND", b"ap", b"-")
    assert members(bucket, b"ap", b"id1") == ("OK", b"ap", b"id1")


def test_it_may_be_main_for_good(bucket: Bucket) -> None:
    assert members(bucket, b"main", b"id1")[0] == "OK"
    assert members(bucket, b"eu", b"id1") == ("BOUND", b"main", b"id1")


def test_members_are_recorded(bucket: Bucket) -> None:
    members(bucket, b"eu", b"id1", b"eu", b"id1", b"member", b"us", b"id2", b"member")
    members(bucket, b"eu", b"id1", b"us", b"id2", b"evicted", b"a.b-c_D9", b"id3", b"member")
    fields = {name: value for name, value in bucket.fields(META).items() if name.startswith(b"m:")}
    assert fields == {b"m:eu": b"id1 member", b"m:us": b"id2 evicted", b"m:a.b-c_D9": b"id3 member"}


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["eu"], ["", "id"], ["e u", "id"], ["eu/", "id"], ["e@u", "id"], ["x" * 65, "id"], ["eu", ""],
        ["eu", "i d"], ["eu", "id", "us"], ["eu", "id", "us", "id2"], ["eu", "id", "us", "id2", "gone"],
        ["eu", "id", "u s", "id2", "member"], ["eu", "id", "us", "", "member"],
    ],
)  # fmt: skip
def test_bad_arguments_write_nothing(bucket: Bucket, arguments: list[str]) -> None:
    with pytest.raises(redis.ResponseError, match="BADARG members_set"):
        bucket.ask("EVAL", scripts.text(Script.MEMBERS_SET), 1, META, *arguments)
    assert bucket.everything() == {}


# --- marks_set and entries_forget ----------------------------------------------------------------------------------


def test_marks_are_as_told(bucket: Bucket) -> None:
    assert set_marks(bucket, b"<us", b"anew.x 0 0", b"j", b"1") == ("OK",)
    assert set_marks(bucket, b"<us", b"evicted 0 0") == ("OK",)
    assert bucket.fields(MARKS) == {b"<us": b"evicted 0 0", b"j": b"1"}
    for arguments in ([], ["j"], ["j", "1", "w"]):
        with pytest.raises(redis.ResponseError, match="BADARG marks_set"):
            bucket.ask("EVAL", scripts.text(Script.MARKS_SET), 1, MARKS, *arguments)


def test_what_other_regions_told_is_forgotten_and_nothing_else(bucket: Bucket) -> None:
    own = {
        b"d": b"g.1",
        b"g.1.own+": b"7",
        b"~g.1.own+": b"1",
        b"+": b"2",
        b"@/g.0+": b"3",
        b"~@/g.1+": b"4",
        b"k": b"2",
    }
    others = {b"@us/g.0+": b"5", b"@us/g.0-": b"1", b"~@us/g.0+": b"5", b"@a.p-1/x.2+": b"9"}
    bucket.client.hset(key("a"), mapping=own | others)  # type: ignore[arg-type]  # bytes will do
    bucket.client.hset(key("b"), mapping=others)  # type: ignore[arg-type]
    bucket.client.set(key("sealed"), "sealed id 1 - 0 0")
    assert forget(bucket, key("a"), key("b"), key("sealed"), key("not there")) == ("OK", 8)
    assert bucket.fields(key("a")) == own
    assert bucket.client.exists(key("b")) == 0
    assert forget(bucket, key("a")) == ("OK", 0)


def test_a_shard_with_more_entries_than_lua_passes_at_once_is_forgotten_whole(bucket: Bucket) -> None:
    bucket.client.hset(key("a"), mapping={"d": "g.1", **{f"@us/g.{n}+": 1 for n in range(9001)}})
    assert forget(bucket, key("a")) == ("OK", 9001)
    assert bucket.fields(key("a")) == {b"d": b"g.1"}
