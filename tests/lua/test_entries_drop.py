"""What counts for nothing is dropped once every peer has heard of it, and nothing else is."""

from __future__ import annotations

import pytest
import redis

from redis_counters.crdt.shard_fields import sum_fields
from redis_counters.protocol.wire import scripts
from redis_counters.protocol.wire.commands import Script
from tests.lua.calls import INDEX, REGISTRY, Answer, Bucket, key
from tests.lua.regions import MARKS, OTHER, PEER, digest, drop, join, merge, merged_key, note, repair, told
from tests.lua.scenarios import denied, full_memory, read_only

A, B, C = key("a"), key("b"), key("c")
FLOOR = b"0 0 us/g.0,5,2,5,2"


def dropped(bucket: Bucket, *shards: bytes, peers: tuple[bytes, ...] = (PEER,), kept: tuple[bytes, ...] = ()) -> int:
    answer: Answer = drop(bucket, *shards, peers=peers, kept=kept, indexes=[merged_key(PEER), merged_key(OTHER)])
    assert answer[0] == "OK"
    assert isinstance(answer[1], int)
    return answer[1]


def heard(bucket: Bucket, peer: bytes = PEER) -> None:
    """The peer has all that there is, and says so; and we have a mark of it."""
    bucket.client.hset(MARKS, b"<" + peer, "there 1 1")
    others = [merged_key(other) for other in (PEER, OTHER) if other != peer]
    keys = [REGISTRY, MARKS, merged_key(peer), INDEX, *others]
    mark, more, _ = told(bucket.call(Script.CHANGES_LIST, keys, [peer, b"-", 10_000]))
    assert not more
    bucket.call(Script.CHANGES_LIST, keys, [peer, mark, 10_000])


def test_an_entry_that_is_all_floor_is_dropped_once_all_have_heard_of_it(bucket: Bucket) -> None:
    join(bucket)
    repair(bucket, (A, FLOOR))
    assert dropped(bucket, A) == 0
    heard(bucket)
    assert dropped(bucket, A, peers=(PEER, OTHER)) == 0
    heard(bucket, OTHER)
    before = sum_fields(bucket.fields(A).items()), digest(bucket, A)
    assert dropped(bucket, A, peers=(PEER, OTHER)) == 1
    assert bucket.fields(A) == {b"d": b"gen00.0"}
    assert (sum_fields(bucket.fields(A).items()), digest(bucket, A)) == before
    assert dropped(bucket, A, peers=(PEER, OTHER)) == 0


def test_what_is_only_noted_was_told_to_nobody(bucket: Bucket) -> None:
    """What was lost here, and told back with its floor while there is a note: it stands behind that."""
    join(bucket)
    repair(bucket, (A, b"0 0 ap/g.0,5"))
    heard(bucket)
    note(bucket, B)
    repair(bucket, (A, b"0 0 eu/gen99.0,7,0,7"))
    assert dropped(bucket, A) == 0
    heard(bucket)
    assert dropped(bucket, A) == 1


def test_what_counts_is_not(bucket: Bucket) -> None:
    join(bucket)
    repair(bucket, (A, b"0 0 us/g.0,5,2,5 us/g.1,5 us/g.2,5,2,4,2 us/g.3,5,2,5,2 ap/g.1,0,1"))
    heard(bucket)
    before = sum_fields(bucket.fields(A).items())
    assert dropped(bucket, A) == 1
    assert set(bucket.fields(A)) & {b"@us/g.3+", b"@us/g.3-", b"~@us/g.3+", b"~@us/g.3-"} == set()
    assert sum_fields(bucket.fields(A).items()) == before
    assert len(bucket.fields(A)) == 1 + 3 + 1 + 4 + 1


def test_the_live_dot_stays(bucket: Bucket) -> None:
    """Its slots are under it; an older one of this region goes."""
    join(bucket)
    bucket.merge(bucket.actor(), 1, fresh_plus=[(A, 5)])
    repair(bucket, (A, b"0 0 eu/gen00.0,5,0,5 eu/gen99.0,7,0,7"))
    heard(bucket)
    assert dropped(bucket, A) == 1
    assert bucket.fields(A)[b"~@/gen00.0+"] == b"5"
    repair(bucket, (A, b"0 0 eu/gen00.0,9,0,9"))
    heard(bucket)
    assert dropped(bucket, A) == 0
    assert sum_fields(bucket.fields(A).items())[0] == 0


def test_those_of_a_region_that_may_come_back_stay(bucket: Bucket) -> None:
    join(bucket)
    repair(bucket, (A, b"0 0 ap/g.0,5,0,5 us/g.0,5,0,5 u/g.0,5,0,5"))
    heard(bucket)
    assert dropped(bucket, A, kept=(OTHER, b"u")) == 1
    assert set(bucket.fields(A)) == {b"d", b"@ap/g.0+", b"~@ap/g.0+", b"@u/g.0+", b"~@u/g.0+"}


@pytest.mark.parametrize("who", ["us", "ap", "eu"])
def test_a_change_that_a_peer_has_not_heard_of_keeps_it(bucket: Bucket, who: str) -> None:
    """Whoever made it: the last stamp in any index counts."""
    join(bucket)
    repair(bucket, (A, FLOOR), (B, FLOOR))
    heard(bucket)
    if who == "eu":
        bucket.merge(bucket.actor(), 1, fresh_plus=[(A, 1)])
    else:
        repair(bucket, (A, b"0 0 ap/g.0,1"), source=who.encode())
    assert dropped(bucket, A, B) == 1
    assert b"@us/g.0+" in bucket.fields(A)
    heard(bucket)
    assert dropped(bucket, A, B) == 1


def test_with_every_drop_all_marks_change(bucket: Bucket) -> None:
    """So what a peer told before it had heard of it, and is still on its way, is refused: it would bring it back."""
    join(bucket)
    repair(bucket, (A, FLOOR), (B, FLOOR))
    for peer in (PEER, OTHER):
        heard(bucket, peer)
    for shard, drops in ((A, b" 1"), (B, b" 2")):
        assert dropped(bucket, shard, peers=(PEER, OTHER)) == 1
        marks = bucket.fields(MARKS)
        assert marks[b"<us"] == marks[b"<ap"] == b"there 1 1" + drops
        assert merge(bucket, (A, FLOOR), since=b"there 1 1", mark=b"there 2 2") == ("OTHER", marks[b"<us"])
    assert dropped(bucket, A, B, peers=(PEER, OTHER)) == 0
    assert bucket.fields(MARKS) == marks
    assert merge(bucket, (A, FLOOR), since=b"there 1 1 2", mark=b"there 2 2 2")[0] == "OK"


def test_a_peer_that_could_not_be_stopped_like_that_keeps_all(bucket: Bucket) -> None:
    """There is no mark of it to be changed."""
    join(bucket)
    repair(bucket, (A, FLOOR))
    heard(bucket)
    bucket.client.hdel(MARKS, b"<us")
    assert dropped(bucket, A) == 0


def test_a_shard_without_a_stamp_stays(bucket: Bucket) -> None:
    """Nobody knows whether it was told of: the index was lost."""
    join(bucket)
    repair(bucket, (A, FLOOR))
    heard(bucket)
    bucket.client.delete(merged_key())
    assert dropped(bucket, A) == 0


def test_a_receipt_of_another_incarnation_is_none(bucket: Bucket) -> None:
    join(bucket)
    repair(bucket, (A, FLOOR))
    heard(bucket)
    with read_only(bucket):
        pass  # it was made a follower, and is the primary again
    assert dropped(bucket, A) == 0
    heard(bucket)
    assert dropped(bucket, A) == 1


def test_who_may_not_ask_for_info_drops_nothing_by_the_receipts_of_others(bucket: Bucket) -> None:
    join(bucket)
    repair(bucket, (A, FLOOR))
    heard(bucket)
    with denied(bucket, "info") as other:
        assert dropped(other, A) == 0
        heard(other)
        assert dropped(other, A) == 1


def test_without_peers_all_have_heard(bucket: Bucket) -> None:
    join(bucket)
    repair(bucket, (A, FLOOR))
    assert dropped(bucket, A, peers=()) == 1


def test_other_keys_are_left(bucket: Bucket) -> None:
    """None there; of another type; sealed."""
    join(bucket, A, B, C)
    bucket.client.set(A, "mine")
    bucket.seal(B)
    heard(bucket)
    assert dropped(bucket, A, B, C) == 0
    assert bucket.client.get(A) == b"mine"
    assert bucket.client.exists(C) == 0


def test_many_at_once(bucket: Bucket) -> None:
    """Two thousand shards; and of one with more entries than Lua passes to a function, some in each call."""
    join(bucket)
    names = [key(i) for i in range(2000)]
    repair(bucket, *((name, FLOOR) for name in names))
    assert dropped(bucket, *names, peers=()) == 2000
    for first in range(0, 3000, 1000):
        repair(bucket, (A, b"0 0 " + b" ".join(b"us/g.%d,1,1,1,1" % n for n in range(first, first + 1000))))
    total = 0
    while some := dropped(bucket, A, peers=()):
        total += some
    assert total == 3000
    assert bucket.fields(A) == {b"d": b"gen00.0"}


def test_lack_of_memory_does_not_stop_it(bucket: Bucket) -> None:
    join(bucket)
    repair(bucket, (A, FLOOR))
    with full_memory(bucket):
        assert dropped(bucket, A, peers=()) == 1


@pytest.mark.parametrize("which", [MARKS, INDEX, merged_key()])
def test_a_key_of_another_type_in_their_place_is_told(bucket: Bucket, which: bytes) -> None:
    join(bucket)
    repair(bucket, (A, FLOOR))
    heard(bucket)
    bucket.client.delete(which)
    bucket.client.set(which, "mine")
    before = bucket.everything()
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        dropped(bucket, A)
    assert bucket.everything() == before


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["1"], ["1", "0"], ["0", "0", "0"], ["1", "1", "0"], ["1", "0", "1"], ["9", "0", "0"],
        ["1", "0", "0", "x"], ["x", "0", "0"],
    ],
)  # fmt: skip
def test_bad_arguments_write_nothing(bucket: Bucket, arguments: list[str]) -> None:
    keys = [REGISTRY, MARKS, INDEX, A]
    with pytest.raises(redis.ResponseError, match="BADARG entries_drop"):
        bucket.ask("EVAL", scripts.text(Script.ENTRIES_DROP), len(keys), *keys, *arguments)
    assert bucket.everything() == {}
