"""A peer is told of every change since its mark, and of all there is where its mark says nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import redis

from redis_counters.protocol.wire import scripts
from redis_counters.protocol.wire.commands import Script
from tests.lua.calls import INDEX, REGISTRY, Bucket, key
from tests.lua.regions import MARKS, OTHER, PEER, changes, join, merge, merged_key, stamps, told
from tests.lua.scenarios import denied, full_memory, read_only
from tests.servers import Kind, RealServer

A, B, C = key("a"), key("b"), key("c")


def follow(bucket: Bucket, mark: bytes = b"-", most: int = 1000, others: int = 0) -> tuple[bytes, list[list[bytes]]]:
    """Ask until there is no more; return the last mark, and what was told each time."""
    parts = []
    for _ in range(200):
        mark, more, members = told(changes(bucket, mark, most, others=others))
        parts.append(members)
        if not more:
            return mark, parts
    raise AssertionError("there is always more")


def stamp(bucket: Bucket, index: bytes, **versions: int) -> None:
    bucket.client.zadd(index, {f"0:{name}": version for name, version in versions.items()})
    highest = max([*versions.values(), int(bucket.registry().get(b"v", 0))])
    bucket.client.hset(REGISTRY, mapping={"g": "gen00", "v": highest})


def version_of(mark: bytes) -> int:
    return int(mark.split(b" ")[1])


# --- what is told --------------------------------------------------------------------------------------------------


def test_what_has_changed_since_and_nothing_else(bucket: Bucket) -> None:
    join(bucket, A, B)
    mark, _, members = told(changes(bucket))
    assert sorted(members) == [b"0:a", b"0:b"]
    assert told(changes(bucket, mark)) == (mark, False, [])
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(B, 1), (C, 1)])
    mark, _, members = told(changes(bucket, mark))
    assert sorted(members) == [b"0:b", b"0:c"]
    bucket.merge(actor, 2, 1, known_plus=[(B, 1), (C, 2)])
    mark, _, members = told(changes(bucket, mark))
    assert members == [b"0:c"]
    assert version_of(mark) == 3
    assert told(changes(bucket, mark)) == (mark, False, [])


def test_a_key_that_is_gone_is_told_too(bucket: Bucket) -> None:
    join(bucket)
    bucket.merge(bucket.actor(), 1, fresh_plus=[(A, 1)])
    bucket.client.delete(A)
    assert told(changes(bucket))[2] == [b"0:a"]


def test_what_others_told_is_forwarded_but_not_to_whom_it_came_from(bucket: Bucket) -> None:
    """Unless that one fetches all there is: it may have lost it."""
    join(bucket)
    merge(bucket, (A, b"0 0 us/g.0,5"), source=PEER)
    merge(bucket, (B, b"0 0 ap/g.0,5"), source=OTHER)
    keys = [REGISTRY, MARKS, merged_key(PEER), INDEX, merged_key(OTHER)]
    mark, _, members = told(bucket.call(Script.CHANGES_LIST, keys, [PEER, b"-", 100]))
    assert sorted(members) == [b"0:a", b"0:b"]
    merge(bucket, (A, b"0 0 us/g.0,6"), source=PEER, since=b"there 1 1", mark=b"there 2 1")
    merge(bucket, (B, b"0 0 ap/g.0,6"), source=OTHER, since=b"there 1 1", mark=b"there 2 1")
    mark, _, members = told(bucket.call(Script.CHANGES_LIST, keys, [PEER, mark, 100]))
    assert members == [b"0:b"]


def test_a_member_of_two_indexes_is_told_once(bucket: Bucket) -> None:
    stamp(bucket, INDEX, a=1, b=2)
    stamp(bucket, merged_key(b"r0"), a=3, c=4)
    assert sorted(told(changes(bucket, others=1))[2]) == [b"0:a", b"0:b", b"0:c"]


# --- in parts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 2, 3, 5, 100])
def test_in_parts_of_whole_versions(bucket: Bucket, most: int) -> None:
    """Of random changes in three indexes: no version is cut, the mark covers just what was told, all is told."""
    chance = random.Random(most)
    for _ in range(6):
        bucket.client.flushall()
        join(bucket)
        expected: dict[int, set[bytes]] = {}
        for version in range(2, chance.randint(3, 12)):
            for index in (INDEX, merged_key(b"r0"), merged_key(b"r1")):
                names = {f"n{version}.{chance.randrange(9)}" for _ in range(chance.randrange(4))}
                if names:
                    stamp(bucket, index, **dict.fromkeys(names, version))
                    expected.setdefault(version, set()).update(f"0:{name}".encode() for name in names)
        bucket.client.hset(REGISTRY, "v", 12)
        mark, since = b"-", 0
        while True:
            mark, more, members = told(changes(bucket, mark, most, others=2))
            covered = version_of(mark)
            within = {name for version, names in expected.items() if since < version <= covered for name in names}
            assert set(members) == within
            assert len(members) == len(within)
            assert len(members) <= max(most, max((len(names) for names in expected.values()), default=0))
            since = covered
            if not more:
                break
        assert since == 12


def test_one_version_of_more_than_are_asked_for_is_told_as_a_whole(bucket: Bucket) -> None:
    """Two flushes of a thousand; whatever `most` is, each is one part."""
    join(bucket)
    actor = bucket.actor()
    for seq in (1, 2):
        bucket.merge(actor, seq, seq - 1, fresh_plus=[(key(f"{seq}.{i}"), 1) for i in range(1000)])
    for most in (1, 999, 1000):
        _, parts = follow(bucket, most=most)
        assert [len(part) for part in parts] == [1000, 1000]
    _, parts = follow(bucket, most=1001)
    assert [len(part) for part in parts] == [1000, 1000]
    assert [len(part) for part in follow(bucket, most=2000)[1]] == [2000]


def test_who_fetches_all_in_parts_is_told_what_came_from_it_until_it_has_all(bucket: Bucket) -> None:
    join(bucket)
    for version, name in enumerate("abcd", 2):
        stamp(bucket, merged_key(PEER), **{name: version})
    mark, more, members = told(changes(bucket, most=2))
    assert (members, more) == ([b"0:a", b"0:b"], True)
    stamp(bucket, merged_key(PEER), e=6)
    stamp(bucket, INDEX, f=7)
    mark, more, members = told(changes(bucket, mark, most=2))
    assert members == [b"0:c", b"0:d"]
    mark, more, members = told(changes(bucket, mark, most=2))
    assert (members, more) == ([b"0:f"], False)


# --- marks ---------------------------------------------------------------------------------------------------------


def test_a_mark_of_another_registry_says_nothing(bucket: Bucket) -> None:
    join(bucket, A)
    mark, _, _ = told(changes(bucket))
    bucket.client.delete(REGISTRY)
    join(bucket, A, generation=b"gen77")
    other, _, members = told(changes(bucket, mark))
    assert members == [b"0:a"]
    assert other.split(b" ")[0] != mark.split(b" ")[0]


@pytest.mark.parametrize("mark", [b"", b"-", b"x", b"gen00 1", b"gen00 x 1", b"gen00 1 1 1", b"other 1 1"])
def test_a_mark_that_is_none_says_nothing(bucket: Bucket, mark: bytes) -> None:
    join(bucket, A)
    assert told(changes(bucket, mark))[2] == [b"0:a"]
    assert bucket.fields(MARKS) == {}


def test_a_mark_ahead_of_us_says_nothing(bucket: Bucket) -> None:
    """The peer is ahead of a fail-over that nobody could notice otherwise."""
    join(bucket, A)
    incarnation = told(changes(bucket))[0].split(b" ")[0]
    mark, _, members = told(changes(bucket, incarnation + b" 2 1"))
    assert members == [b"0:a"]
    assert mark == incarnation + b" 1 1"
    assert bucket.fields(MARKS) == {}


def test_what_stands_behind_a_mark_is_passed_on(bucket: Bucket) -> None:
    """It is the peer's: how often it has dropped something."""
    join(bucket, A)
    mark, _, _ = told(changes(bucket))
    assert told(changes(bucket, mark + b" 7")) == (mark + b" 7", False, [])
    bucket.merge(bucket.actor(), 1, fresh_plus=[(B, 1)])
    assert told(changes(bucket, mark + b" 7"))[0] == mark.replace(b" 1 1", b" 2 1 7")


@pytest.fixture
def durable(kind: Kind) -> Iterator[RealServer]:
    server = RealServer.start(kind, "--appendonly", "yes", "--appendfsync", "always")
    yield server
    server.stop()


def test_a_restart_ends_the_incarnation(durable: RealServer) -> None:
    """With all its data: nobody can tell whether the last of it is there."""
    bucket = Bucket(durable.client())
    join(bucket, A)
    mark, _, _ = told(changes(bucket))
    assert told(changes(bucket, mark))[2] == []
    durable.restart()
    bucket = Bucket(durable.client())
    again, _, members = told(changes(bucket, mark))
    assert members == [b"0:a"]
    assert again.split(b" ")[0] != mark.split(b" ")[0]
    assert again.split(b" ")[1:] == [b"1", b"1"]


def test_so_does_becoming_the_primary(bucket: Bucket) -> None:
    join(bucket, A)
    mark, _, _ = told(changes(bucket))
    with read_only(bucket):
        pass
    assert told(changes(bucket, mark))[2] == [b"0:a"]


def test_who_may_not_ask_for_info_goes_by_the_registry(bucket: Bucket) -> None:
    """A weaker incarnation, and another than that of who may."""
    join(bucket, A)
    mark, _, _ = told(changes(bucket))
    with denied(bucket, "info") as other:
        weak, _, members = told(changes(other, mark))
        assert members == [b"0:a"]
        assert weak == b"gen00 1 1"
        assert told(changes(other, weak)) == (weak, False, [])
    assert told(changes(bucket, weak))[2] == [b"0:a"]


# --- receipts ------------------------------------------------------------------------------------------------------


def test_a_mark_is_a_receipt_once_it_covers_all_that_was_fetched(bucket: Bucket) -> None:
    join(bucket)
    for version, name in enumerate("abcd", 2):
        stamp(bucket, INDEX, **{name: version})
    mark, _, _ = told(changes(bucket, most=2))
    half, _, _ = told(changes(bucket, mark, most=1))
    assert bucket.fields(MARKS) == {}, "it has not said yet that it has all"
    mark, _, _ = told(changes(bucket, half))
    assert bucket.fields(MARKS) == {}
    changes(bucket, mark)
    assert bucket.fields(MARKS) == {b">us": mark}


def test_a_receipt_only_grows(bucket: Bucket) -> None:
    """A late request, with an old mark, takes none back; one of another incarnation is replaced."""
    join(bucket, A)
    old, _, _ = told(changes(bucket))
    changes(bucket, old)
    bucket.merge(bucket.actor(), 1, fresh_plus=[(B, 1)])
    new, _, _ = told(changes(bucket, old))
    changes(bucket, new)
    assert bucket.fields(MARKS) == {b">us": new}
    assert told(changes(bucket, old))[2] == [b"0:b"]
    assert bucket.fields(MARKS) == {b">us": new}
    changes(bucket, new, peer=OTHER)
    assert bucket.fields(MARKS) == {b">us": new, b">ap": new}
    bucket.client.hset(MARKS, ">us", "another 99 1")
    changes(bucket, old)
    assert bucket.fields(MARKS)[b">us"] == old


def test_asking_again_and_again_writes_nothing(bucket: Bucket) -> None:
    join(bucket, A)
    mark, _, _ = told(changes(bucket))
    changes(bucket, mark)
    with denied(bucket, "@write") as reader:
        assert told(changes(reader, mark)) == (mark, False, [])


# --- what is refused ------------------------------------------------------------------------------------------------


def test_lack_of_memory_does_not_stop_it(bucket: Bucket) -> None:
    join(bucket, A)
    mark, _, _ = told(changes(bucket))
    with full_memory(bucket):
        assert told(changes(bucket, mark)) == (mark, False, [])
    assert bucket.fields(MARKS) == {b">us": mark}


def test_indexes_that_are_lost_are_empty(bucket: Bucket) -> None:
    """What they held is found by comparing; versions go on."""
    join(bucket, A)
    mark, _, _ = told(changes(bucket))
    bucket.client.delete(INDEX)
    assert told(changes(bucket, mark)) == (mark, False, [])
    bucket.merge(bucket.actor(), 1, fresh_plus=[(B, 1)])
    assert stamps(bucket) == {b"0:b": 2}
    assert told(changes(bucket, mark))[2] == [b"0:b"]


@pytest.mark.parametrize("which", [MARKS, INDEX, merged_key(b"r0")])
def test_a_key_of_another_type_in_their_place_is_told(bucket: Bucket, which: bytes) -> None:
    join(bucket, A)
    mark, _, _ = told(changes(bucket))
    bucket.client.delete(which)
    bucket.client.set(which, "mine")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        changes(bucket, mark, others=1)


@pytest.mark.parametrize("arguments", [["us", "-"], ["us", "-", "0"], ["us", "-", "x"], ["us", "-", "-1"]])
def test_bad_arguments_write_nothing(bucket: Bucket, arguments: list[str]) -> None:
    join(bucket)
    before = bucket.everything()
    keys = [REGISTRY, MARKS, merged_key(), INDEX]
    with pytest.raises(redis.ResponseError, match="BADARG changes_list"):
        bucket.ask("EVAL", scripts.text(Script.CHANGES_LIST), len(keys), *keys, *arguments)
    assert bucket.everything() == before
