"""Where a namespace has joined others, all that changes is stamped in the same step, and nothing else is."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import redis

from tests.lua import keyed, regions
from tests.lua.calls import INDEX, LONG, Answer, Bucket, items_for, key
from tests.lua.regions import changes, join, member, settle, stamps, to_settle
from tests.lua.scenarios import denied, full_memory, read_only
from tests.lua.test_manifest import counted

A, B, C = key("a"), key("b"), key("c")
FRESH, SHARDS = ("fresh_plus", "fresh_minus", "floored_plus", "floored_minus"), "widened"


def known(bucket: Bucket) -> dict[bytes, int]:
    return {name: version for name, version in stamps(bucket).items() if name != LONG}


def merges(section: str) -> Callable[[Bucket], Answer]:
    """Return a flush that tells of both shards in one way; each call is a later flush of one actor."""

    def call(bucket: Bucket) -> Answer:
        opened = bucket.open()
        assert isinstance(opened[1], bytes)
        assert isinstance(opened[2], int)
        return bucket.merge(opened[1], opened[2] + 1, **{section: items_for(section, [A, B])})  # type: ignore[arg-type]

    return call


CHANGES: dict[str, Callable[[Bucket], Answer]] = {
    **{section: merges(section) for section in (*FRESH, SHARDS)},
    "once": lambda bucket: keyed.once(bucket, (A, b"key", 1), (B, b"key2", 1), (A, b"key3", 1)),
    "like": lambda bucket: keyed.like(bucket, *((k, keyed.users(n), b"+", b"ann") for k, n in ((A, "a"), (B, "b")))),
    "seed": lambda bucket: keyed.seed(bucket, (A, b"s.x", 5), (B, b"s.x", -5)),
    "widen": lambda bucket: bucket.widen(A, B),
    "settle": lambda bucket: keyed.settle(bucket, (A, 4), (B, 4)),
}
every_change = pytest.mark.parametrize("how", CHANGES)


@every_change
def test_what_changes_is_stamped(bucket: Bucket, how: str) -> None:
    """With the next version, the same for all that a call changes."""
    join(bucket, C)
    assert CHANGES[how](bucket)[0] == "OK"
    assert known(bucket) == {b"0:a": 2, b"0:b": 2, b"0:c": 1}
    assert bucket.registry()[b"v"] == b"2"


@every_change
def test_what_does_not_change_is_not(bucket: Bucket, how: str) -> None:
    """The same again takes no version either; where one of two changes, that one is stamped."""
    join(bucket)
    CHANGES[how](bucket)
    CHANGES[how](bucket)
    assert known(bucket) == {b"0:a": 2, b"0:b": 2}
    assert bucket.registry()[b"v"] == b"2"
    bucket.client.delete(A, *keyed.slices(bucket), keyed.users("a"))
    keyed_once = how == "once"  # whose records were deleted for both
    CHANGES[how](bucket)
    assert known(bucket) == {b"0:a": 3, b"0:b": 3 if keyed_once else 2}


@every_change
def test_where_nobody_has_joined_nothing_is(bucket: Bucket, how: str) -> None:
    """The index is not looked at: something else may be in its place."""
    bucket.client.set(INDEX, "mine")
    bucket.actor()
    assert CHANGES[how](bucket)[0] == "OK"
    assert bucket.client.get(INDEX) == b"mine"
    assert b"v" not in bucket.registry()
    assert bucket.map(A).dot not in (None, b"gen00.0")


@every_change
def test_a_shard_that_was_never_counted_has_the_first_dot(bucket: Bucket, how: str) -> None:
    """One whose name is known was lost by other ways than a fail-over, and is a new thing."""
    join(bucket, B)
    CHANGES[how](bucket)
    issued = bucket.registry()[b"n"]
    assert bucket.map(A).dot == b"gen00.0"
    assert bucket.map(B).dot == b"gen00." + issued


@every_change
def test_a_fail_over_gives_back_the_same_dot(bucket: Bucket, how: str) -> None:
    """It takes back the key, its stamp, and the version, together; the stamp of a key deleted by hand stays."""
    join(bucket)
    CHANGES[how](bucket)
    others = keyed.slices(bucket)
    bucket.client.delete(A, B, *others, keyed.users("a"), keyed.users("b"))
    bucket.client.zrem(INDEX, b"0:a")
    CHANGES[how](bucket)
    assert bucket.map(A).dot == b"gen00.0"
    assert bucket.map(B).dot not in (None, b"gen00.0")


@every_change
def test_an_index_that_cannot_be_written_is_told_before_anything_is(bucket: Bucket, how: str) -> None:
    """It holds something else; the user may not; there is no memory; the server is no primary any more."""
    bucket.actor()
    join(bucket)
    before = bucket.everything()
    with full_memory(bucket), pytest.raises(redis.ResponseError, match=r"OOM|memory"):
        CHANGES[how](bucket)
    with read_only(bucket), pytest.raises(redis.ResponseError):
        CHANGES[how](bucket)
    with denied(bucket, "zadd") as other, pytest.raises(redis.ResponseError):
        CHANGES[how](other)
    assert bucket.everything() == before
    bucket.client.delete(INDEX)
    bucket.client.set(INDEX, "mine")
    before = bucket.everything()
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        CHANGES[how](bucket)
    assert bucket.everything() == before


@every_change
@pytest.mark.parametrize("command", ["zscore", "zmscore"])
def test_an_index_that_cannot_be_read_is_told_before_anything_is_written(
    bucket: Bucket, how: str, command: str
) -> None:
    """Else what is written then is told again, changes nothing, and is not stamped any more."""
    bucket.actor()
    join(bucket)
    before = bucket.everything()
    with denied(bucket, command) as other:
        try:
            CHANGES[how](other)
        except redis.ResponseError:
            assert bucket.everything() == before
        else:
            assert known(bucket) == {b"0:a": 2, b"0:b": 2}


@pytest.mark.parametrize("command", ["zscore", "zmscore"])
def test_a_flush_of_new_and_other_shards_is_refused_as_a_whole(bucket: Bucket, command: str) -> None:
    join(bucket)
    some = [(key(n), 1) for n in range(400)]
    bucket.merge(bucket.actor(b"otherowner1234"), 1, fresh_plus=some[:100])
    actor = bucket.actor()
    before = bucket.everything()
    with denied(bucket, command) as other, pytest.raises(redis.ResponseError):
        other.merge(actor, 1, fresh_plus=some)
    assert bucket.everything() == before


@every_change
def test_what_is_refused_alone_is_not_stamped(bucket: Bucket, how: str) -> None:
    join(bucket)
    bucket.client.set(A, "mine")
    assert CHANGES[how](bucket)[0] == "OK"
    assert known(bucket) == {b"0:b": 2}


def test_an_index_that_is_lost_begins_anew(bucket: Bucket) -> None:
    """What was known is not any more: such a key gets the first dot again. (Comparing finds what was not told.)"""
    join(bucket)
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 1)])
    bucket.client.delete(INDEX)
    bucket.merge(actor, 2, 1, known_plus=[(A, 2)])
    assert known(bucket) == {b"0:a": 3}


def test_a_known_slot_is_stamped_if_it_is_raised(bucket: Bucket) -> None:
    """By the totals as they are, not as their owner remembers them."""
    join(bucket)
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 5), (B, 5)], fresh_minus=[(C, 10**18)])
    bucket.merge(actor, 2, 1, known_plus=[(A, 5), (B, 6)], known_minus=[(C, 10**18)])
    assert known(bucket) == {b"0:a": 2, b"0:b": 3, b"0:c": 2}
    bucket.merge(actor, 3, 2, fresh_plus=[(A, 4), (B, 7)], floored_minus=[(C, 10**18 + 1, 1)])
    assert known(bucket) == {b"0:a": 2, b"0:b": 4, b"0:c": 4}


def test_a_taken_back_like_is_stamped(bucket: Bucket) -> None:
    join(bucket)
    for sign, version in ((b"+", 2), (b"-", 3), (b"-", 3), (b"+", 4)):
        keyed.like(bucket, (A, keyed.users("a"), sign, b"ann"))
        assert known(bucket) == {b"0:a": version}


def test_what_changes_nothing_that_counts_is_not_stamped(bucket: Bucket) -> None:
    """Opening, closing, folding; flushes that are late, of somebody unknown, or miss a slot."""
    join(bucket)
    actor = bucket.actor()
    bucket.merge(actor, 1, fresh_plus=[(A, 5)])
    assert bucket.merge(actor, 1, fresh_plus=[(B, 5)])[0] == "STALE"
    assert bucket.merge(b"x.1.y", 1, fresh_plus=[(B, 5)])[0] == "UNKNOWN"
    assert bucket.merge(actor, 2, 1, known_plus=[(B, 5)], fresh_plus=[(C, 1)])[0] == "MISSING"
    bucket.end(actor, A, base=1)
    assert bucket.merge(actor, 2, 1, fresh_plus=[(B, 5)])[0] == "CLOSED"
    assert known(bucket) == {b"0:a": 2}
    assert bucket.registry()[b"v"] == b"2"


def test_nothing_of_an_expired_counter_is_stamped(bucket: Bucket) -> None:
    join(bucket)
    past, later = keyed.now(bucket) - 1000, keyed.now(bucket) + 900_000
    items = [(A, 1), (B, 1)]
    bucket.merge(bucket.actor(), 1, fresh_plus=items, floored_minus=[(C, 1, 0)], expiring={A: past, B: later, C: past})
    assert known(bucket) == {b"0:b": 2}
    assert bucket.map(B).dot == b"gen00.0"


def test_new_shards_are_stamped_in_groups(bucket: Bucket) -> None:
    """Of thousands: new ones, some whose names are known, some named twice, and some that are there."""
    names = [key(i) for i in range(3000)]
    join(bucket, *names[::7])
    actor = bucket.actor()
    bucket.merge(bucket.actor(b"otherowner1234"), 1, fresh_plus=[(name, 1) for name in names[1000:1100]])
    version = int(bucket.registry()[b"v"]) + 1
    bucket.merge(actor, 1, fresh_plus=[(name, 1) for name in names], fresh_minus=[(name, 1) for name in names[:500]])
    remade = {member(name) for name in names[::7]}
    assert set(to_settle(changes(bucket, most=5000))) == remade
    settle(bucket, *names)
    stamped = known(bucket)
    assert {stamped.pop(name) for name in remade} == set(range(version + 1, version + 1 + len(remade)))
    assert set(stamped.values()) == {version}
    assert set(stamped) == set(map(member, names)) - remade
    dots = [bucket.map(name).dot for name in names]
    assert [i for i, dot in enumerate(dots) if dot != b"gen00.0"] == list(range(0, 3000, 7))
    assert len(set(dots)) == 1 + len(remade)
    bucket.merge(actor, 2, 1, known_plus=[(name, 2) for name in names])
    assert set(known(bucket).values()) == {version + len(remade) + 1}


def test_a_group_that_is_new_costs_no_command_more(bucket: Bucket) -> None:
    """None, and one for all that has changed; whatever number there is of them. Eight look and try before that."""
    items = [(key(i), 1) for i in range(250)]
    join(bucket)
    actor = bucket.actor()
    alone = counted(bucket, lambda given: given.merge(actor, 1, fresh_plus=items))
    assert alone == 250 + 1 + 10
    more = counted(bucket, lambda given: given.merge(actor, 2, 1, known_plus=[(name, 2) for name, _ in items]))
    assert more == 2 * 250 + 10


def test_a_namespace_that_has_not_joined_pays_no_command(bucket: Bucket) -> None:
    """Beside those on the shards: the record with all that is settled, the time, and the record that is written."""
    items = [(key(i), 1) for i in range(250)]
    actor = bucket.actor()
    assert counted(bucket, lambda given: given.merge(actor, 1, fresh_plus=items)) == 250 + 1 + 3
    assert counted(bucket, lambda given: given.merge(actor, 2, 1, known_plus=[(k, 2) for k, _ in items])) == 2 * 250 + 3
    assert known(bucket) == {}


FOLDED = 3


class Life:
    """Random calls of every script that may change a shard, each looked at for what it changed and what it stamped."""

    def __init__(self, bucket: Bucket, seed: int) -> None:
        self.bucket, self.rng = bucket, random.Random(seed)
        self.names = [key(n) for n in "abcde"]
        self.actors: list[bytes] = []
        self.seqs: dict[bytes, int] = {}
        join(bucket, *self.names[:2])

    def some(self) -> list[bytes]:
        return self.rng.sample(self.names, self.rng.randint(1, 3))

    def number(self) -> int:
        return self.rng.choice([0, 1, 2, 5, 9, 10, 2**53 + 1, 10**18])

    def flush(self) -> None:
        if not self.actors or self.rng.random() < 0.2:
            self.actors.append(self.bucket.actor(b"owner%09d" % len(self.seqs)))
            self.seqs[self.actors[-1]] = 0
        actor = self.rng.choice(self.actors)
        sections: dict[str, Any] = {}
        for section in self.rng.sample([*FRESH, SHARDS, "known_plus"], self.rng.randint(1, 3)):
            items = [(name, self.number()) for name in self.some()]
            sections[section] = [(*i, min(i[1], self.number())) for i in items] if "floored" in section else items
        self.seqs[actor] += 1
        self.bucket.merge(actor, self.seqs[actor], **sections)

    def fold(self) -> None:
        if self.actors:
            actor = self.actors.pop(self.rng.randrange(len(self.actors)))
            self.bucket.close(actor)
            self.bucket.fold(actor, *self.names)

    def call(self) -> int:
        rng, bucket = self.rng, self.bucket
        what = rng.randrange(9)
        if what < 3:
            self.flush()
        elif what == FOLDED:
            self.fold()
        elif what == 4:
            keyed.once(bucket, *((name, b"key %d" % rng.randrange(30), rng.randrange(3)) for name in self.some()))
        elif what == 5:
            sign = rng.choice([b"+", b"-"])
            keyed.like(bucket, *((name, keyed.users(name[-1:].decode()), sign, b"ann") for name in self.some()))
        elif what == 6:
            keyed.seed(bucket, *((name, b"s.x", rng.choice([1, -1]) * self.number()) for name in self.some()))
        elif what == 7:
            rng.choice([bucket.widen, lambda *names: keyed.settle(bucket, *((n, 2) for n in names))])(*self.some())
        elif rng.random() < 0.5:
            place = rng.choice([b"us/g.0", b"eu/gen00.0", b"eu/g.7"])
            regions.repair(bucket, *((name, b"0 0 %b,%d,%d" % (place, self.number(), 1)) for name in self.some()))
        else:
            bucket.reset(self.some()[0], delete=int(rng.random() < 0.5))
        return what


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_what_others_are_told_of_a_shard_changes_with_its_stamp(bucket: Bucket, seed: int) -> None:
    """In a long life of random calls, all that a shard goes through. Folding, which changes nothing, stamps nothing."""
    life = Life(bucket, seed)

    def told() -> list[bytes]:
        return regions.read(bucket, *life.names)

    def stamped() -> dict[bytes, int]:
        merged = stamps(bucket, regions.merged_key())
        return {name: max(known(bucket).get(name, 0), merged.get(name, 0)) for name in {*known(bucket), *merged}}

    for _ in range(150):
        before, stamps_before = told(), stamped()
        what = life.call()
        after, stamps_after = told(), stamped()
        changed = {b"0:" + n[-1:] for n, old, new in zip(life.names, before, after, strict=True) if old != new}
        restamped = {name for name, version in stamps_after.items() if version != stamps_before.get(name)}
        assert changed <= restamped
        assert {stamps_after[name] for name in restamped} <= {int(bucket.registry()[b"v"])}
        assert not restamped or what != FOLDED
