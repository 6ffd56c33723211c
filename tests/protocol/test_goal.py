"""A flush waits for all that was counted before it, also where that has to wait longer than it seemed."""

from __future__ import annotations

from redis_counters.protocol.goal import Goal
from tests.faces.either import truth
from tests.protocol.by_hand import ByHand
from tests.servers import RealServer


def test_what_is_gated_later_is_waited_for(any_server: RealServer) -> None:
    """A key waits to be sent when flush() is called, and another thread raises the number of shards: it is held back.

    That it is passed over then, and others are sent, does not mean that Redis has it.
    """
    hand = ByHand(any_server.client(), choice=1)  # of 2 shards and of 8 it writes to 1
    writer = hand.writer
    writer.shards.learn(b"x", 2)
    hand.count(b"x", 1)
    for _ in range(3):
        hand.round()
    assert hand.value(b"x") == 1
    bucket, _ = hand.keys.shard_key(b"x", 1)
    bucket0, _ = hand.keys.shard_key(b"x", 0)
    other = next(name for name in (b"n%d" % i for i in range(1000)) if hand.keys.bucket(name, 0) == bucket)

    hand.count(b"x", 100)
    goal = Goal(writer)
    assert not goal.reached()
    writer.shards.learn(b"x", 8)
    hand.count(b"x", 1)
    hand.count(other, 1)
    for _ in range(3):
        writer.new_round()
        writer.buckets[bucket0].failed = True  # the number of shards is not answered yet
        hand.go_on()
        assert hand.value(other, 1) == 1  # the bucket itself goes on
        assert hand.value(b"x") < 101
        assert not goal.reached()

    for _ in range(3):
        hand.round()
    assert goal.reached()
    assert truth(any_server, ["x", other]) == {b"x": 102, other: 1}


def test_reached_once_is_reached_for_good(any_server: RealServer) -> None:
    """What flush() waited for is in Redis: a gate that is shut afterwards, for another counter, changes nothing of it.

    flush() asks a second time, to tell whether it has to raise.
    """
    hand = ByHand(any_server.client(), choice=1)
    hand.count(b"x", 5)
    goal = Goal(hand.writer)
    assert not goal.reached()
    for _ in range(3):
        hand.round()
    assert goal.reached()
    hand.writer.shards.learn(b"y", 4)
    hand.count(b"y", 1)
    assert goal.reached()
