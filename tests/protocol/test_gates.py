"""A shard other than 0 is used only after shard 0 tells of it, so that no reader misses it."""

from __future__ import annotations

from redis_counters.protocol.wire.commands import Script
from redis_counters.protocol.write.actor_set import Request
from tests.faces.either import truth
from tests.protocol.by_hand import ByHand
from tests.servers import RealServer


def on_its_way(hand: ByHand) -> Request:
    """Return the first flush that the writer sends; what has to come before it is answered."""
    hand.writer.new_round()
    while True:
        request = hand.request()
        assert request is not None
        if request.command.script is Script.SLOTS_MERGE:
            return request
        hand.answer(request)


def test_a_gate_opens_for_the_number_that_was_asked_for(any_server: RealServer) -> None:
    """Two shards are on their way when eight are asked for: the answer to two opens nothing that readers may miss."""
    hand = ByHand(any_server.client(), choice=3)  # of 2 shards it writes to 1, of 8 to 3
    hand.writer.router.shards.learn(b"x", 2)
    hand.count(b"x", 1)
    request = on_its_way(hand)
    assert list(request.command.keys[2:]) == [hand.key(b"x")]  # shard 0 alone, with the number of shards
    hand.writer.router.shards.learn(b"x", 8)
    hand.count(b"x", 10)
    hand.answer(request)

    def nothing_is_missed() -> None:
        assert truth(any_server, ["x"]) == {b"x": hand.value(b"x")}

    nothing_is_missed()
    bucket0, _ = hand.keys.shard_key(b"x", 0)
    hand.writer.router.buckets[bucket0].failed = True  # the new number of shards gets no further for now
    hand.go_on(each=nothing_is_missed)
    assert hand.value(b"x") < 11
    for _ in range(4):
        hand.writer.new_round()
        hand.go_on(each=nothing_is_missed)
    assert hand.writer.clean
    assert truth(any_server, ["x"]) == {b"x": 11}


def test_who_writes_to_shard_0_tells_of_what_it_was_told(any_server: RealServer) -> None:
    """By an option or a handle: others use them, though it does not itself. What Redis says need not be told again."""
    hand = ByHand(any_server.client(), choice=16, shards=4)  # of 4, 8 and 16 shards it writes to 0
    hand.writer.router.shards.ask(b"by a handle", 16)
    hand.writer.router.shards.learn(b"learned", 8)
    for name, told in {b"by an option": b"4", b"by a handle": b"16", b"learned": None}.items():
        hand.count(name, 1)
        hand.round()
        assert hand.client.hget(hand.key(name), "k") == told, name
    assert hand.writer.clean


def test_a_refused_number_of_shards_is_tried_again(any_server: RealServer) -> None:
    """Shard 0 holds something else, so nothing may be sent; once that is gone, the next increment brings all along."""
    hand = ByHand(any_server.client(), choice=3, shards=4)
    hand.client.set(hand.key(b"x"), "text")
    hand.count(b"x", 1)
    for _ in range(3):
        hand.round()
    assert hand.writer.outstanding.pending() == {"x": 1}
    assert {error.counter for error in hand.writer.outstanding.refusals()} == {b"x"}
    hand.client.delete(hand.key(b"x"))
    hand.count(b"x", 1)
    for _ in range(3):
        hand.round()
    assert hand.writer.outstanding.pending() == {}
    assert hand.writer.outstanding.refusals() == []
    assert hand.writer.clean
    assert truth(any_server, ["x"]) == {b"x": 2}


def test_a_number_of_shards_that_stays_refused_keeps_the_gate_shut(any_server: RealServer) -> None:
    """Trying again with each increment, while the cause is there, sends nothing that no reader would find."""
    hand = ByHand(any_server.client(), choice=3, shards=4)
    hand.client.set(hand.key(b"x"), "text")
    for counted in range(1, 4):
        hand.count(b"x", 1)
        for _ in range(3):
            hand.round()
        assert hand.writer.outstanding.pending() == {"x": counted}
        assert hand.client.hgetall(hand.key(b"x", 3)) == {}


def test_what_was_refused_waits_for_its_number_when_it_is_retried(any_server: RealServer) -> None:
    """A call of flush() retries what Redis refused: nothing gets into a shard before shard 0 tells of it."""
    hand = ByHand(any_server.client(), choice=3, shards=4)
    hand.client.set(hand.key(b"x"), "text")
    hand.count(b"x", 1)
    for _ in range(3):
        hand.round()
    assert hand.writer.outstanding.refusals()
    for _ in range(2):
        hand.writer.outstanding.retry_refused()
        hand.round()
        assert hand.client.hgetall(hand.key(b"x", 3)) == {}
    hand.client.delete(hand.key(b"x"))
    hand.writer.outstanding.retry_refused()
    for _ in range(2):
        hand.round()
    assert hand.writer.clean
    assert truth(any_server, ["x"]) == {b"x": 1}
