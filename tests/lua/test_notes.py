"""What a large flush changes is noted as one, and entered in the change index by name before anybody is told of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import redis

from redis_counters.protocol.exchange.change_index import names_in
from redis_counters.protocol.wire import scripts
from redis_counters.protocol.wire.commands import Script
from tests.lua import keyed
from tests.lua.calls import INDEX, REGISTRY, Bucket, key
from tests.lua.regions import changes, enter, join, member, merge, note, notes, read, settle, to_settle, told
from tests.lua.scenarios import denied, full_memory
from tests.lua.test_changes_list import follow, version_of

FEW, MOST = 50, 20_000  # of lua/parts/changes.lua
NAMES = [key(i) for i in range(FEW)]
A, B = key("a"), key("b")


def totals(names: Sequence[bytes], total: int = 1) -> list[tuple[bytes, int]]:
    return [(name, total) for name in names]


def by_name(bucket: Bucket) -> dict[bytes, int]:
    """Return what the index has, without entering anything."""
    found: Any = bucket.client.zrange(INDEX, 0, -1, withscores=True)
    return {name: int(score) for name, score in found if score > 0}


def every_note(bucket: Bucket) -> list[tuple[bytes, int, list[bytes]]]:
    """Return the kind, the version and the names of each note, sorted; the latest first."""
    found: Any = bucket.client.zrangebyscore(INDEX, "-inf", "(0", withscores=True)
    return [(note[1:2], -int(score), names_in(note)) for note, score in found]


def noted(bucket: Bucket) -> int:
    return int(bucket.registry().get(b"p", 0))


# --- what is noted -------------------------------------------------------------------------------------------------


def test_a_large_flush_is_one_member(bucket: Bucket) -> None:
    """Of new shards and of known ones, in their order, with its version below zero."""
    join(bucket)
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=totals(NAMES))
    assert notes(bucket) == {2: [member(name) for name in NAMES]}
    assert by_name(bucket) == {}
    assert noted(bucket) == FEW
    bucket.merge(actor, 2, 1, known_plus=totals(NAMES[::-1], 2))
    assert notes(bucket) == {2: [member(name) for name in NAMES], 3: [member(name) for name in NAMES[::-1]]}
    assert noted(bucket) == 2 * FEW
    assert bucket.registry()[b"v"] == b"3"


def test_a_smaller_one_is_entered_by_name(bucket: Bucket) -> None:
    """What counts is how many have changed."""
    join(bucket)
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=totals(NAMES[1:]))
    bucket.merge(actor, 2, 1, known_plus=totals(NAMES[1:]), fresh_plus=totals(NAMES[:1]))
    assert by_name(bucket) == {member(NAMES[0]): 3, **{member(name): 2 for name in NAMES[1:]}}
    assert (notes(bucket), noted(bucket)) == ({}, 0)


def test_the_same_names_again_are_the_same_note(bucket: Bucket) -> None:
    join(bucket)
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=totals(NAMES))
    for seq in (2, 3, 4):
        bucket.merge(actor, seq, seq - 1, known_plus=totals(NAMES, seq))
    assert notes(bucket) == {n: [member(name) for name in NAMES] for n in (2, 3)}
    assert noted(bucket) == 2 * FEW


def test_new_ones_are_another_note_each_time(bucket: Bucket) -> None:
    """Of each of them it has to be seen whether it was there before."""
    join(bucket)
    for seq in (1, 2, 3):
        bucket.merge(bucket.actor(b"owner%08d" % seq), 1, fresh_plus=totals(NAMES))
        bucket.client.delete(*NAMES)
    assert notes(bucket) == {n: [member(name) for name in NAMES] for n in (2, 3, 4)}
    assert noted(bucket) == 3 * FEW


def test_what_changes_behind_a_note_is_noted_too(bucket: Bucket) -> None:
    """However few: so the index hears of all in the order in which it was. New ones beside it have a note of theirs."""
    join(bucket)
    bucket.merge(bucket.actor(b"otherowner1234"), 1, fresh_plus=[(A, 1)])
    bucket.merge(
        bucket.actor(),
        1,
        fresh_plus=[*totals([key(n) for n in range(1000, 1250)]), (A, 1)],
        floored_plus=[(B, 5, 1)],
        widened=[(key("c"), 3)],
    )
    assert by_name(bucket) == {b"0:a": 2}
    new = [b"0:%d" % n for n in range(1000, 1250)] + [b"0:b", b"0:c"]
    assert every_note(bucket) == [(b"c", 3, [b"0:a", b"0:b", b"0:c"]), (b"m", 3, new)]
    keyed.seed(bucket, (A, b"s.x", 3))
    assert every_note(bucket)[0] == (b"c", 4, [b"0:a"])
    enter(bucket)
    assert (by_name(bucket)[b"0:a"], by_name(bucket)[b"0:c"]) == (4, 3)
    bucket.merge(bucket.actor(b"thirdowner1234"), 1, fresh_plus=[(A, 1)])
    assert by_name(bucket)[b"0:a"] == 5


def test_of_a_large_flush_that_is_refused_in_part_the_new_ones_are_noted(bucket: Bucket) -> None:
    """However few they are: nobody has looked whether they were there before."""
    join(bucket)
    for name in NAMES[1:]:
        bucket.client.set(name, "mine")
    assert len(bucket.merge(bucket.actor(), 1, fresh_plus=totals(NAMES))) == 2 + 2 * (FEW - 1)
    assert every_note(bucket) == [(b"c", 2, [member(NAMES[0])]), (b"m", 2, [member(NAMES[0])])]
    assert by_name(bucket) == {}


def test_a_name_may_hold_what_is_between_names(bucket: Bucket) -> None:
    join(bucket)
    odd = b"{rc:0}:c:0:x\n0:y"
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=totals([*NAMES, odd]))
    bucket.merge(actor, 2, 1, known_plus=totals([*NAMES[1:], odd], 2))
    assert every_note(bucket) == [
        (b"C", 3, [member(odd)]),
        (b"c", 3, [member(name) for name in NAMES[1:]]),
        (b"M", 2, [member(odd)]),
        (b"m", 2, [member(name) for name in NAMES]),
    ]
    assert noted(bucket) == 2 * FEW + 1
    before = every_note(bucket)
    bucket.merge(actor, 3, 2, known_plus=totals([*NAMES[1:], odd], 3))
    assert (every_note(bucket), noted(bucket)) == (before, 2 * FEW + 1)
    enter(bucket)
    assert by_name(bucket) == {member(NAMES[0]): 2, **{member(name): 3 for name in (*NAMES[1:], odd)}}
    bucket.client.delete(odd)
    bucket.merge(bucket.actor(b"otherowner1234"), 1, fresh_plus=totals([odd, *map(key, range(100, 150))]))
    enter(bucket)
    assert to_settle(changes(bucket)) == [member(odd)]
    assert read(bucket, odd) == [b"0 0"]
    settle(bucket, odd)
    assert read(bucket, odd) == [b"0 0 eu/gen00.3,1"]


def test_of_too_many_the_oldest_are_entered(bucket: Bucket) -> None:
    """Where nobody asks for them: as many as are noted."""
    join(bucket)
    actor = bucket.actor()
    bucket.client.hset(REGISTRY, "p", MOST - 1)
    bucket.merge(actor, 1, fresh_plus=totals(NAMES))
    assert list(notes(bucket)) == [2]
    assert noted(bucket) == MOST - 1 + FEW
    bucket.merge(actor, 2, 1, known_plus=totals(NAMES, 2))
    assert set(by_name(bucket).values()) == {2}
    assert (list(notes(bucket)), noted(bucket)) == ([3], FEW)


def test_as_many_are_entered_as_are_noted(bucket: Bucket) -> None:
    """So what one flush has to do for others is bounded, and so is what is noted."""
    join(bucket)
    for n in range(3):
        note(bucket, *(key(f"{n}.{i}") for i in range(FEW - 20)))
    bucket.client.hset(REGISTRY, "p", MOST)
    bucket.merge(bucket.actor(), 1, fresh_plus=totals(NAMES))
    assert list(notes(bucket)) == [5, 4]


def test_a_note_costs_one_command(bucket: Bucket) -> None:
    join(bucket)
    many = [key(i) for i in range(250)]
    bucket.client.config_resetstat()
    bucket.merge(bucket.actor(), 1, fresh_plus=totals(many))
    stats = bucket.client.info("commandstats")
    for command, calls in (("zmscore", 1), ("zadd", 2)):
        assert stats[f"cmdstat_{command}"]["calls"] == calls  # the first of them sees whether it may


# --- what it does not change ----------------------------------------------------------------------------------------


def test_who_is_known_by_name_is_a_new_thing_when_made_again(bucket: Bucket) -> None:
    """That is seen when it is entered: in the order in which it was made."""
    join(bucket, A)
    bucket.merge(bucket.actor(), 1, fresh_plus=totals([A, *NAMES]))
    bucket.client.delete(A, NAMES[0])
    bucket.merge(bucket.actor(b"otherowner1234"), 1, fresh_plus=totals([A, NAMES[0]]))
    bucket.client.delete(NAMES[1])
    enter(bucket)
    assert sorted(to_settle(changes(bucket))) == [member(NAMES[0]), member(A)]


def test_who_is_named_twice_was_made_once(bucket: Bucket) -> None:
    """Counted up and down at once; also where that lies in two pieces of what is looked up."""
    names = [key(i) for i in range(1001)]
    join(bucket)
    bucket.merge(bucket.actor(b"otherowner1234"), 1, fresh_plus=totals(names[:1]))
    bucket.merge(bucket.actor(), 1, fresh_plus=totals(names), fresh_minus=totals(names[-1:]))
    (_, (_, _, new)) = every_note(bucket)
    assert new[999:] == [member(names[-1])] * 2
    assert to_settle(changes(bucket, most=2000)) == []


def test_where_nobody_has_joined_nothing_is_noted(bucket: Bucket) -> None:
    bucket.merge(bucket.actor(), 1, fresh_plus=totals(NAMES))
    assert (notes(bucket), noted(bucket)) == ({}, 0)


def test_a_registry_that_was_lost_goes_on_above_all_notes(bucket: Bucket) -> None:
    join(bucket)
    for _ in range(5):
        version = note(bucket, A)
        note(bucket, B)
    bucket.client.delete(REGISTRY)
    join(bucket)
    assert int(bucket.registry()[b"v"]) > version + 1
    _, (members,) = follow(bucket)
    assert sorted(members) == [b"0:a", b"0:b"]
    assert noted(bucket) == 0


def test_who_is_made_by_a_merge_is_behind_all_notes(bucket: Bucket) -> None:
    """They are entered, and so it is stamped by name, if it is one of this region's that was lost."""
    join(bucket)
    note(bucket, B)
    merge(bucket, (A, b"0 0 eu/gen99.0,7"))
    assert by_name(bucket) == {b"0:b": 2, b"0:a": 3}
    assert (notes(bucket), noted(bucket)) == ({}, 0)


# --- entering -------------------------------------------------------------------------------------------------------


def test_who_asks_is_told_of_all_that_is_noted(bucket: Bucket) -> None:
    """By name, and once; then it stands in the index with the versions of its flushes."""
    join(bucket)
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=totals(NAMES))
    bucket.merge(actor, 2, 1, known_plus=totals([*NAMES[1:], NAMES[0]], 2))
    mark, more, members = told(changes(bucket))
    assert sorted(members) == sorted(member(name) for name in NAMES)
    assert (version_of(mark), more) == (3, False)
    assert (notes(bucket), noted(bucket)) == ({}, 0)
    assert by_name(bucket) == {member(name): 3 for name in NAMES}
    assert told(changes(bucket, mark)) == (mark, False, [])


def test_a_later_change_is_not_taken_back(bucket: Bucket) -> None:
    join(bucket)
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=totals(NAMES))
    bucket.merge(actor, 2, 1, known_plus=totals(NAMES[:2], 2))
    enter(bucket)
    assert by_name(bucket) == {member(name): 3 if name in NAMES[:2] else 2 for name in NAMES}


@pytest.mark.every(4, "more of the same")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("most", [1, 2, 3, 5, 100])
def test_while_more_is_noted(bucket: Bucket, most: int, seed: int) -> None:
    """Of random notes and names: each part has all up to its mark, and nothing beyond it."""
    join(bucket)
    chance, mark, since = random.Random(f"{most} {seed}"), b"-", 0
    last: dict[bytes, int] = {}  # by name, when it changed
    for step in range(40):
        if step < 20:
            names = [key(n) for n in chance.sample(range(9), chance.randint(1, 4))]
            version = note(bucket, *names) if chance.random() < 0.7 else version_of_names(bucket, names)
            last.update(dict.fromkeys(map(member, names), version))
            if chance.random() < 0.6:
                continue
        mark, more, members = told(changes(bucket, mark, most))
        covered = version_of(mark)
        assert len(members) == len(set(members))
        assert {name for name, version in last.items() if since < version <= covered} <= set(members)
        assert {by_name(bucket)[name] for name in members} <= set(range(since + 1, covered + 1))
        since = covered
        if step >= 20 and not more:
            break
    assert since == int(bucket.registry()[b"v"])
    assert (notes(bucket), noted(bucket)) == ({}, 0)
    assert by_name(bucket) == last


def version_of_names(bucket: Bucket, names: Sequence[bytes]) -> int:
    version = bucket.client.hincrby(REGISTRY, "v", 1)
    assert isinstance(version, int)
    bucket.client.zadd(INDEX, {member(name): version for name in names})
    return version


def test_a_few_notes_at_a_time(bucket: Bucket) -> None:
    """However many there are, a script enters about as many names as are asked for: the oldest."""
    join(bucket)
    for n in range(20):
        note(bucket, *(key(f"{n}.{i}") for i in range(10)))
    for left in (18, 16):
        assert enter(bucket, 15) == ("OK", b"1")
        assert (len(notes(bucket)), noted(bucket)) == (left, 10 * left)
    assert min(notes(bucket)) == 6
    _, more, members = told(changes(bucket, most=15))
    assert (len(members), more) == (10, True)
    assert len(notes(bucket)) == 14
    assert enter(bucket, 140) == ("OK", b"0")
    assert enter(bucket, 1) == ("OK", b"0")


def test_a_note_of_thousands_is_entered_whole(bucket: Bucket) -> None:
    join(bucket)
    many = [key(i) for i in range(9_001)]
    version = note(bucket, *many)
    assert enter(bucket, 1) == ("OK", b"0")
    assert by_name(bucket) == {member(name): version for name in many}


def test_a_number_that_was_lost_ends_at_nothing(bucket: Bucket) -> None:
    """It says about how many are noted, and whether any are; where none are it is right again."""
    join(bucket)
    note(bucket, A, B)
    note(bucket, A)
    bucket.client.hset(REGISTRY, "p", 1)
    enter(bucket, 1)
    assert noted(bucket) == 1  # for one is left: what changes is noted behind it
    enter(bucket, 1)
    assert noted(bucket) == 0
    bucket.client.hset(REGISTRY, "p", 99)
    enter(bucket, 1)
    assert noted(bucket) == 0
    bucket.client.hset(REGISTRY, "p", MOST)
    with full_memory(bucket):
        enter(bucket, 1)
    assert noted(bucket) == 0


def test_a_number_that_is_none_stands_for_nothing(bucket: Bucket) -> None:
    """Flushes and entering go on."""
    join(bucket)
    bucket.client.hset(REGISTRY, "p", "x")
    assert enter(bucket) == ("OK", b"0")
    bucket.merge(bucket.actor(), 1, fresh_plus=totals(NAMES))
    assert noted(bucket) == FEW
    bucket.client.hset(REGISTRY, "p", "x")
    assert enter(bucket) == ("OK", b"0")
    assert by_name(bucket) == {member(name): 2 for name in NAMES}
    assert noted(bucket) == 0


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["asking", "entering"])
def test_lack_of_memory_does_not_stop_it(bucket: Bucket, by: str) -> None:
    join(bucket)
    version = note(bucket, *NAMES)
    with full_memory(bucket):
        if by == "asking":
            assert len(told(changes(bucket))[2]) == FEW
        else:
            enter(bucket)
    assert by_name(bucket) == {member(name): version for name in NAMES}


@pytest.mark.parametrize("command", ["zrevrangebyscore", "zrem", "zadd", "hset"])
def test_who_may_not_is_told(bucket: Bucket, command: str) -> None:
    """And nothing that was noted is lost."""
    join(bucket)
    version = note(bucket, *NAMES)
    with denied(bucket, command) as other, pytest.raises(redis.ResponseError, match=r"NOPERM|ACL|can't"):
        enter(other)
    enter(bucket)
    assert by_name(bucket) == {member(name): version for name in NAMES}


@pytest.mark.parametrize("arguments", [["0"], ["x"], ["-1"], [""]])
def test_bad_arguments_write_nothing(bucket: Bucket, arguments: list[str]) -> None:
    join(bucket)
    note(bucket, *NAMES)
    before = bucket.everything()
    with pytest.raises(redis.ResponseError, match="BADARG notes_enter"):
        bucket.ask("EVAL", scripts.text(Script.NOTES_ENTER), 2, REGISTRY, INDEX, *arguments)
    assert bucket.everything() == before
