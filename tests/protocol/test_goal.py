"""A flush waits for all that was counted before it, also where that has to wait longer than it seemed."""

from __future__ import annotations

from redis_counters.protocol.flush.target import FlushTarget
from tests.faces.either import truth
from tests.protocol.by_hand import ByHand
from tests.servers import RealServer


def test_what_is_let_through_is_not_held_back_again(any_server: RealServer) -> None:
    """A key waits to be sent when flush() is called, and another thread raises the number of shards: it still goes.

    Held back it would be passed over, and the flush be over without it.
    """
    hand = ByHand(any_server.client(), choice=1)  # of 2 shards and of 8 it writes to 1
    writer = hand.writer
    writer.router.shards.learn(b"x", 2)
    hand.count(b"x", 1)
    for _ in range(3):
        hand.round()
    assert hand.value(b"x") == 1
    bucket0, _ = hand.keys.shard_key(b"x", 0)

    hand.count(b"x", 100)
    target = FlushTarget(writer)
    assert not target.reached()
    writer.router.shards.learn(b"x", 8)
    hand.count(b"x", 1)
    writer.new_round()
    writer.router.buckets[bucket0].failed = True  # the number of shards is not answered yet
    hand.go_on()
    assert hand.value(b"x") == 102
    for _ in range(3):
        hand.round()
    assert target.reached()
    assert truth(any_server, ["x"]) == {b"x": 102}


def test_reached_once_is_reached_for_good(any_server: RealServer) -> None:
    """What flush() waited for is in Redis: a gate that is shut afterwards, for another counter, changes nothing of it.

    flush() asks a second time, to tell whether it has to raise.
    """
    hand = ByHand(any_server.client(), choice=1)
    hand.count(b"x", 5)
    target = FlushTarget(hand.writer)
    assert not target.reached()
    for _ in range(3):
        hand.round()
    assert target.reached()
    hand.writer.router.shards.learn(b"y", 4)
    hand.count(b"y", 1)
    assert target.reached()


def test_a_counter_that_was_deleted_tells_of_its_shards_first(any_server: RealServer) -> None:
    """Else what flush() waited for is in Redis, and no reader finds it."""
    hand = ByHand(any_server.client(), choice=3, shards=4)
    hand.count(b"x", 1)
    for _ in range(3):
        hand.round()
    hand.client.delete(*(hand.key(b"x", shard) for shard in range(4)))
    hand.count(b"x", 1)
    target = FlushTarget(hand.writer)
    bucket0, _ = hand.keys.shard_key(b"x", 0)
    hand.writer.new_round()
    hand.writer.router.buckets[bucket0].failed = True  # its number of shards gets no further for now
    hand.go_on()
    assert hand.value(b"x") == 1
    assert not target.reached()
    for _ in range(3):
        hand.round()
    assert target.reached()
    assert truth(any_server, ["x"]) == {b"x": 1}


def test_what_had_passed_and_was_lost_has_to_pass_again(any_server: RealServer) -> None:
    """All of it: the first flush that is answered again carries one counter of two."""
    hand = ByHand(any_server.client(), buckets=2, max_batch=1)
    names = [b"%d" % number for number in range(20)]
    late, *_, one, two, three = sorted(names, key=lambda name: hand.keys.shard_key(name, 0)[0])
    first = [one, two, three]
    hand.count(late, 1)
    hand.round()
    for name in (late, *first):
        hand.count(name, 1)
    target = FlushTarget(hand.writer)
    hand.writer.new_round()
    hand.writer.router.buckets[0].failed = True
    hand.go_on()
    assert not target.reached()
    assert [hand.value(name, 1) for name in (late, *first)] == [1, 1, 1, 1]
    hand.client.flushall()

    def all_is_there() -> None:
        if target.reached():
            assert [hand.value(name, 1) for name in (late, *first)] == [2, 1, 1, 1]

    for _ in range(4):
        hand.writer.new_round()
        hand.go_on(each=all_is_there)
    assert target.reached()
    all_is_there()
