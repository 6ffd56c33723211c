"""Actors end and begin, with something that Redis refuses among what they hold: nothing is lost, nothing piles up."""

from __future__ import annotations

import time
from typing import Any

from redis_counters.protocol.read.fetch import Reads
from redis_counters.protocol.wire.commands import Script
from redis_counters.protocol.wire.values import CounterValue
from tests.protocol.by_hand import ByHand, run
from tests.servers import RealServer


def test_what_is_counted_after_closing_is_pending(any_server: RealServer) -> None:
    """The current actor is at its end before an older one, which a refused key keeps: counting goes to a new one."""
    hand = ByHand(any_server.client(), rotate_slots=1, reassert_window=0.0, buckets=1)
    hand.client.set(hand.key(b"bad"), "text")
    hand.count(b"bad", 1)
    hand.round(0.0)
    hand.count(b"good", 1)
    hand.round(1.0)
    hand.round(2.0)
    hand.count(b"more", 1)
    for _ in range(6):
        hand.writer.new_round()
        request = hand.request(1.0)
        if request is not None:
            hand.answer(request, 1.0)
    hand.writer.closing = True
    hand.round(1.0)
    assert hand.writer.outstanding.pending() == {"bad": 1}
    hand.count(b"late", 5)
    assert hand.writer.outstanding.pending() == {"bad": 1, "late": 5}
    assert not hand.writer.clean
    assert not hand.writer.closed
    hand.round(1.0)
    assert hand.value(b"late", 1) == 5
    assert hand.value(b"more", 1) == 1
    assert hand.writer.outstanding.pending() == {"bad": 1}


def test_what_is_counted_while_actors_end_is_not_lost(any_server: RealServer) -> None:
    """Closing goes on, and somebody counts before each answer: all is in Redis or pending, and arrives in the end."""
    hand = ByHand(any_server.client(), buckets=1)
    hand.count(b"x", 1)
    hand.round(0.0)
    counted = 1

    def held() -> int:
        return hand.value(b"x", 1) + hand.writer.outstanding.pending().get("x", 0)

    hand.writer.closing = True
    for turn in range(1, 11):
        hand.writer.new_round()
        for _ in range(5):
            request = hand.request(float(turn))
            if request is None:
                break
            hand.count(b"x", 1)
            counted += 1
            hand.answer(request, float(turn))
            assert held() == counted
        hand.count(b"x", 1)
        counted += 1
        assert held() == counted
    for turn in range(11, 15):
        hand.round(float(turn))
    assert hand.writer.closed
    assert hand.value(b"x", 1) == counted
    assert hand.sent[Script.SLOTS_FOLD] >= 1


def test_a_refused_key_does_not_keep_actors(any_server: RealServer) -> None:
    """A key stays refused through thirty rotations: at most the current actor and one that ends are there."""
    hand = ByHand(any_server.client(), rotate_slots=10, reassert_window=1.0, buckets=1)
    hand.client.set(hand.key(b"bad"), "text")
    most, owners = 0, set[bytes]()
    for turn in range(1, 31):
        hand.count(b"bad", 1)
        for number in range(20):
            hand.count(b"n%d:%d" % (turn, number), 1)
        for now in (float(turn), turn + 0.5):
            hand.round(now)
        most = max(most, len(hand.writer.router.buckets[0].actors))
        owners.update(actor.owner for actor in hand.writer.router.actors())
    assert len(owners) > 10  # there was rotation
    assert most <= 3
    assert sum(actor.slots for actor in hand.writer.router.actors()) <= 100
    assert hand.writer.outstanding.pending() == {"bad": 30}
    hand.client.delete(hand.key(b"bad"))
    hand.writer.outstanding.retry_refused()
    for now in (40.0, 40.5):
        hand.round(now)
    assert hand.value(b"bad", 1) == 30
    assert hand.writer.outstanding.pending() == {}


def test_a_read_overtaken_by_folding_has_all_own_counts(any_server: RealServer) -> None:
    """A read is answered; before it is taken in, more is flushed and the own slots are folded: nothing is missing."""
    hand = ByHand(any_server.client(), reassert_window=0.0)
    now = 0.0
    reads = Reads(hand.writer, lambda: now, time.time, lambda: 0.0)
    hand.count(b"x", 1)
    hand.round(now)

    now = 1.0
    asks = reads.fetch([b"x"])
    answers: list[Any] = [run(hand.client, command) for command in next(asks)]
    hand.count(b"x", 10)
    now = 2.0
    hand.round(now)
    hand.writer.closing = True
    now = 3.0
    hand.round(now)
    hand.writer.closing = False
    assert hand.writer.closed
    now = 4.0
    values: dict[bytes, CounterValue] = {}
    for _ in range(10):
        try:
            commands = asks.send(answers)
        except StopIteration as stop:
            values = stop.value
            break
        answers = [run(hand.client, command) for command in commands]
    assert values == {b"x": 11}
    assert reads.cache.cached(b"x", 60.0) == 11
    assert hand.value(b"x", 1) == 11
