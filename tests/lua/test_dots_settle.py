"""A shard that was lost by other ways than a fail-over, and made again, is another thing: under another dot.

Who makes many does not look: that is seen later, and until then nobody is told what the shard counts.
"""

from __future__ import annotations

import random

import pytest
import redis

from redis_counters.protocol.wire.commands import Script
from tests.lua.calls import INDEX, LONG, REGISTRY, Bucket, key
from tests.lua.regions import changes, digest, enter, join, member, merge, note, read, settle, stamps, to_settle, told
from tests.lua.scenarios import denied, full_memory
from tests.lua.scenarios import made_again as made_again_by_a_large_flush
from tests.lua.test_changes_list import version_of

A, B = key("a"), key("b")
STATES = ["made", "entered"]


def flush(bucket: Bucket, shard: bytes, total: int, *, owner: int = 0) -> None:
    """By an actor of its own, beside a note: so it is not looked at what the index has."""
    note(bucket, key("other"))
    assert bucket.merge(bucket.actor(b"owner%08d" % owner), 1, fresh_plus=[(shard, total)])[0] == "OK"


def made_again(bucket: Bucket, state: str) -> bytes:
    """It had 10, which were told; it was lost, and has 30 now. Return the mark. ``state``: whether that was seen."""
    join(bucket)
    flush(bucket, A, 10)
    mark = told(changes(bucket))[0]
    assert read(bucket, A) == [b"0 0 eu/gen00.0,10"]
    bucket.client.delete(A)
    flush(bucket, A, 30, owner=1)
    if state == "entered":
        enter(bucket)
    return mark


@pytest.mark.parametrize("state", STATES)
def test_nobody_is_told_what_may_be_another_thing(bucket: Bucket, state: str) -> None:
    """Under the first dot a peer would have 30, and 60 later. What was told back is told: it is of that dot, and kept
    though it is less than what is there."""
    made_again(bucket, state)
    assert read(bucket, A, B) == [b"0 0", b""]
    assert read(bucket, A, shown=True) == [b"0 0 eu/gen00.0,30"]
    assert merge(bucket, (A, b"0 0 eu/gen00.0,10 us/x.1,7"))[:1] == ("OK",)
    assert read(bucket, A) == [b"0 0 eu/gen00.0,10 us/x.1,7"]
    bucket.client.hset(A, mapping={"k": 3, "-": 2})
    assert read(bucket, A) == [b"3 0 eu/gen00.0,10 us/x.1,7"]
    assert read(bucket, A, shown=True) == [b"3 0 eu/gen00.0,30,2 us/x.1,7"]
    changes(bucket)
    settle(bucket, A)
    assert read(bucket, A) == [b"3 0 eu/gen00.0,10 eu/gen00.3,30,2 us/x.1,7"]


def test_what_is_settled_is_told(bucket: Bucket) -> None:
    """It is among what has changed, once more, and no more to be settled."""
    mark = made_again(bucket, "made")
    answer = changes(bucket, mark)
    assert to_settle(answer) == [b"0:a"]
    mark, more, members = told(answer)
    assert (more, members) == (True, [b"0:other"])
    assert settle(bucket, A) == ("OK",)
    assert read(bucket, A) == [b"0 0 eu/gen00.3,30"]
    answer = changes(bucket, mark)
    assert (told(answer)[1:], to_settle(answer)) == ((False, [b"0:a"]), [])
    before = bucket.everything()
    assert settle(bucket, A, B) == ("OK",)
    assert bucket.everything() == before


def test_what_was_never_there_keeps_the_first_dot(bucket: Bucket) -> None:
    """Only until it is entered it is not known; what another had counted first is no life of this region's."""
    join(bucket)
    merge(bucket, (B, b"0 0 us/x.1,7"))
    flush(bucket, A, 5)
    flush(bucket, B, 6, owner=1)
    assert read(bucket, A, B) == [b"0 0", b"0 0 eu/gen00.0,6 us/x.1,7"]
    assert to_settle(changes(bucket)) == []
    assert read(bucket, A, B) == [b"0 0 eu/gen00.0,5", b"0 0 eu/gen00.0,6 us/x.1,7"]


def test_what_is_merged_is_looked_up_behind_all_notes(bucket: Bucket) -> None:
    """It was told, for others had counted it too, and only a note has its name when it is lost."""
    join(bucket)
    merge(bucket, (A, b"0 0 us/x.1,7"))
    flush(bucket, A, 5)
    assert read(bucket, A) == [b"0 0 eu/gen00.0,5 us/x.1,7"]
    bucket.client.delete(A)
    merge(bucket, (A, b"0 0 us/x.1,8"), (B, b"0 0 us/x.1,9"), since=held(bucket))
    flush(bucket, A, 3, owner=1)
    assert read(bucket, A, B) == [b"0 0 eu/gen00.2,3 us/x.1,8", b"0 0 us/x.1,9"]
    assert to_settle(changes(bucket)) == []
    assert stamps(bucket).keys() == {LONG, b"0:a", b"0:other"}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("delete", [0, 1])
def test_a_reset_settles_it_before(bucket: Bucket, state: str, delete: int) -> None:
    """So the floor lies under what was seen, and nothing of it counts later."""
    made_again(bucket, state)
    assert bucket.reset(A, delete=delete) == ("OK", b"/gen00.3,30")
    assert read(bucket, A) == [b"0 0 eu/gen00.3,30,0,30"]
    answer = changes(bucket)
    assert to_settle(answer) == []
    assert b"0:a" in told(answer)[2]


@pytest.mark.parametrize("state", STATES)
def test_so_does_a_renewal(bucket: Bucket, state: str) -> None:
    made_again(bucket, state)
    assert bucket.renew(A) == ("OK", b"/gen00.3,30,0")
    assert to_settle(changes(bucket)) == []


@pytest.mark.parametrize("state", STATES)
def test_a_copy_of_what_was_lost_is_no_copy_of_what_was_made_again(bucket: Bucket, state: str) -> None:
    """So no floor lies under that."""
    made_again(bucket, state)
    assert bucket.call(Script.SHARD_FLOOR, [REGISTRY, INDEX, A], [b"gen00.0", 10, 0]) == ("OK", 0)
    assert read(bucket, A) == [b"0 0 eu/gen00.3,30"]


@pytest.mark.parametrize("state", STATES)
def test_a_key_that_is_gone_again_has_nothing_to_settle(bucket: Bucket, state: str) -> None:
    """Nor one of which another has taken the place."""
    made_again(bucket, state)
    bucket.client.delete(A)
    enter(bucket)
    assert to_settle(changes(bucket)) == [b"0:a"]
    settle(bucket, A)
    assert to_settle(changes(bucket)) == []
    flush(bucket, A, 1, owner=2)
    bucket.client.delete(A)
    bucket.client.set(A, "mine")
    assert to_settle(changes(bucket)) == [b"0:a"]
    settle(bucket, A)
    assert to_settle(changes(bucket)) == []


def test_a_shard_that_is_made_again_and_again(bucket: Bucket) -> None:
    """While it is not settled, and while it is noted: each life that is told has another dot."""
    made_again(bucket, "entered")
    for life in (2, 3):
        bucket.client.delete(A)
        flush(bucket, A, 10 * life, owner=life)
    settle(bucket, A)
    assert read(bucket, A) == [b"0 0 eu/gen00.5,30"]
    assert to_settle(changes(bucket)) == []  # what is noted still was made before
    assert read(bucket, A) == [b"0 0 eu/gen00.5,30"]
    bucket.client.delete(A)
    flush(bucket, A, 7, owner=4)
    assert read(bucket, A) == [b"0 0"]
    changes(bucket)
    settle(bucket, A)
    assert read(bucket, A) == [b"0 0 eu/gen00.7,7"]


def test_who_has_another_dot_already_keeps_it(bucket: Bucket) -> None:
    """It was lost once more, and made by one who looked: peers may have what it counts."""
    made_again(bucket, "entered")
    bucket.client.delete(A)
    bucket.merge(bucket.actor(b"thirdowner1234"), 1, fresh_plus=[(A, 3)])
    (text,) = read(bucket, A)
    assert text.endswith(b",3")
    assert to_settle(changes(bucket)) == [b"0:a"]
    settle(bucket, A)
    assert (read(bucket, A), to_settle(changes(bucket))) == ([text], [])


def test_as_many_are_to_be_settled_as_are_asked_for(bucket: Bucket) -> None:
    """And there are more, until none is left."""
    names = [key(i) for i in range(3)]
    made_again_by_a_large_flush(bucket, *names)
    for left in (3, 2, 1):
        answer = changes(bucket, most=2)
        assert len(to_settle(answer)) == min(left, 2)
        assert told(answer)[1]
        settle(bucket, names.pop())
    assert to_settle(changes(bucket, most=2)) == []


def test_so_it_is_with_a_namespace_that_joins_again(bucket: Bucket) -> None:
    """It lost its registry: what the index has to say of notes is seen then."""
    made_again(bucket, "made")
    bucket.client.delete(REGISTRY)
    join(bucket)
    assert to_settle(changes(bucket)) == [b"0:a"]


def test_lack_of_memory_does_not_stop_it(bucket: Bucket) -> None:
    """Nor does it stop entering what is noted."""
    made_again(bucket, "made")
    with full_memory(bucket):
        assert to_settle(changes(bucket)) == [b"0:a"]
        settle(bucket, A)
    assert read(bucket, A) == [b"0 0 eu/gen00.3,30"]


@pytest.mark.parametrize("command", ["zscore", "zrem", "hget", "hincrby", "hset", "zadd"])
def test_who_may_not_is_told(bucket: Bucket, command: str) -> None:
    """And another is asked to do it again."""
    made_again(bucket, "entered")
    mark = told(changes(bucket))[0]
    with denied(bucket, command) as other, pytest.raises(redis.ResponseError, match=r"NOPERM|ACL|can't"):
        settle(other, A)
    assert to_settle(changes(bucket)) == [b"0:a"]
    settle(bucket, A)
    assert b"0:a" in told(changes(bucket, mark))[2]
    (text,) = read(bucket, A)
    assert text.endswith(b",30")
    assert b"gen00.0" not in text


@pytest.mark.every(4, "more of the same")
@pytest.mark.parametrize("seed", range(40))
def test_a_dot_is_of_one_life(bucket: Bucket, seed: int) -> None:
    """Of random flushes, losses, resets, and looks by several: each dot that is told stands for one life of a shard.

    A life is what is counted from when the key is made until it is lost by hand; each counts 1,000 times its number,
    and a bit. In the end what is there is told.
    """
    join(bucket)
    chance = random.Random(seed)
    names = [key(name) for name in chance.choice(["x", "xyz"])]
    lives: dict[bytes, int] = {}
    dots: dict[tuple[bytes, bytes], int] = {}
    owners = born = 0
    mark = b"-"

    def look() -> None:
        for name, text in zip(names, read(bucket, *names), strict=True):
            for entry in text.split(b" ")[2:]:
                dot, *counts = entry.split(b",")
                counted = int(counts[0])
                if bucket.map(name).dot != dot.partition(b"/")[2] or counted == 0:
                    continue
                assert name in lives
                assert dots.setdefault((name, dot), lives[name]) == lives[name], (name, entry)

    for _ in range(120):
        name = chance.choice(names)
        match chance.choices(["flush", "lose", "enter", "pull", "reset", "merge", "look"], [5, 3, 0.5, 1, 0.5, 2, 3])[
            0
        ]:
            case "flush":
                if chance.random() < 0.6:
                    note(bucket, key("other"))
                if not bucket.client.exists(name):
                    born += 1
                    lives[name] = born
                owners += 1
                actor = bucket.actor(b"owner%08d" % owners)
                bucket.merge(actor, 1, fresh_plus=[(name, 1000 * lives[name] + owners)])
            case "lose":
                bucket.client.delete(name)
                lives.pop(name, None)
            case "enter":
                enter(bucket, chance.choice([1, 2, 1000]))
            case "pull":
                answer = changes(bucket, mark, chance.choice([1, 3, 1000]))
                mark = told(answer)[0]
                if chance.random() < 0.7:
                    settle(bucket, *(b"{rc:0}:c:" + each for each in to_settle(answer)))
            case "reset":
                bucket.reset(name, delete=0)
                look()
            case "merge":
                merge(bucket, (name, b"0 0 us/x.1,%d" % (owners + 1)), since=held(bucket))
                if name not in lives:
                    born += 1
                    lives[name] = born
            case _:
                look()
    while True:
        answer = changes(bucket, mark)
        mark, more, _ = told(answer)
        settle(bucket, *(b"{rc:0}:c:" + each for each in to_settle(answer)))
        if not more:
            break
    look()
    assert version_of(mark) == int(bucket.registry()[b"v"])
    for name in names:
        mine = bucket.map(name)
        counted = sum(mine.plus.slots.values())
        assert counted == 0 or b"eu/%s,%d" % (mine.dot or b"", counted) in read(bucket, name)[0]
    assert digest(bucket, *names)[0] == "OK"


def held(bucket: Bucket) -> bytes:
    return bucket.fields(b"{rc:0}:m").get(b"<us", b"-")


def test_flags_are_no_changes(bucket: Bucket) -> None:
    """Nor do they take part in what is compared: they stand before everything."""
    mark = made_again(bucket, "entered")
    assert bucket.client.zrange(INDEX, 0, 0) == [b"\nr\n0:a"]
    assert told(changes(bucket, mark))[2] == [member(key("other"))]


def test_a_note_stays_where_it_was_first(bucket: Bucket) -> None:
    """What changes once more has the same note. Were it later then, what was made again before would seem the first."""
    join(bucket)
    merge(bucket, (A, b"0 0 us/x.1,7"))
    many, actor = [key(n) for n in range(50)], bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(name, 1) for name in many])
    enter(bucket)
    bucket.merge(actor, 2, 1, fresh_plus=[(A, 10)], known_plus=[(name, 2) for name in many])
    assert read(bucket, A) == [b"0 0 eu/gen00.0,10 us/x.1,7"]  # as who compares is told, or has what us has told
    bucket.client.delete(A)
    bucket.merge(actor, 3, 2, fresh_plus=[(A, 30)])
    bucket.merge(actor, 4, 3, known_plus=[(name, 31) for name in (A, *many)])
    enter(bucket)
    assert to_settle(changes(bucket)) == [b"0:a"]


def test_who_stamps_what_was_there_before_enters_notes_first(bucket: Bucket) -> None:
    """Else what was made again would have a stamp already when its note is entered, as if it were the first."""
    join(bucket)
    merge(bucket, (A, b"0 0 us/x.1,7"))
    note(bucket, A)
    bucket.client.delete(A)
    flush(bucket, A, 30)
    join(bucket, A)
    assert to_settle(changes(bucket)) == [b"0:a"]
