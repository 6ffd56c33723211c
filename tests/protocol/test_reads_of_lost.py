"""A read while Redis loses everything and is told again: whatever comes in between, it lacks no own counts."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from redis_counters.protocol.read.fetch import Reads
from tests.protocol.by_hand import ByHand, run
from tests.protocol.test_refused_after_failover import taken_back
from tests.servers import RealServer

DEPTH = 3  # questions of a read that something may come before; in most orders it has no more


class Process:
    """One that counts x, flushes and reads, a step at a time."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.hand = ByHand(client, buckets=1)
        self.reads = Reads(self.hand.writer, lambda: 0.0, lambda: 0.0, lambda: 0.0)
        self.counted = 0
        self.in_round = False

    def count(self) -> None:
        self.counted += 1
        self.hand.count(b"x", 1)

    def flush(self) -> None:
        """A round, or what was left of one."""
        if not self.in_round:
            self.hand.writer.new_round(0.0)
        self.hand.go_on()
        self.in_round = False

    def one_request(self) -> None:
        if not self.in_round:
            self.hand.writer.new_round(0.0)
        request = self.hand.request()
        self.in_round = request is not None
        if request is not None:
            self.hand.answer(request)

    def lose(self) -> None:
        self.client.flushall()

    def read(self, before: tuple[str, ...]) -> int:
        """Return what it reads, with these things done before its questions."""
        asking = self.reads.fetch([b"x"])
        answers: Any = None
        for what in itertools.chain(before, itertools.repeat("")):
            try:
                commands = asking.send(answers)
            except StopIteration as stop:
                return int(stop.value[b"x"])
            for action in what:
                ACTIONS[action](self)
            answers = [run(self.client, command) for command in commands]
        raise AssertionError


ACTIONS: dict[str, Callable[[Process], None]] = {
    "l": Process.lose,
    "f": Process.flush,
    "1": Process.one_request,
    "c": Process.count,
}
BETWEEN = ("", "l", "f", "1", "lf", "l1", "cf")


@pytest.mark.parametrize("first", BETWEEN)
def test_every_order(any_server: RealServer, first: str) -> None:
    """FLUSHALL, rounds of flushing and single requests of them, before each question of a read."""
    client = any_server.client()
    for rest in itertools.product(BETWEEN, repeat=DEPTH - 1):
        client.flushall()
        process = Process(client)
        process.count()
        process.flush()
        process.count()
        assert process.read((first, *rest)) == process.counted, (first, *rest)
        assert process.read(()) == process.counted, (first, *rest)
        process.flush()
        process.flush()
        assert process.hand.value(b"x", 1) == process.counted, (first, *rest)


def test_a_flush_is_answered_before_the_record_is(any_server: RealServer) -> None:
    """A record that was read before the flush is not behind for it: what somebody deleted stays deleted."""
    process = Process(any_server.client())
    process.count()
    process.flush()
    process.client.delete(process.hand.keys.shard_key(b"x", 0)[1])
    asking = process.reads.fetch([b"x"])
    page = [run(process.client, command) for command in next(asking)]
    records = [run(process.client, command) for command in asking.send(page)]
    process.hand.count(b"y", 1)
    process.flush()
    with pytest.raises(StopIteration) as stop:
        asking.send(records)
    assert stop.value.value == {b"x": 0}
    assert not any(actor.state.probe_due for actor in process.hand.writer.router.actors())


@pytest.mark.parametrize("sign", [1, -1])
def test_a_peer_gives_back_what_a_fail_over_took(any_server: RealServer, sign: int) -> None:
    """Before this process has sent it again: the peer's copy has it, so it is not added to that."""
    client: Any = any_server.client()
    process = Process(client)
    key = process.hand.key(b"x")
    process.hand.count(b"x", 4 * sign)
    process.flush()
    state = {each: client.dump(each) for each in client.keys("*")}
    process.hand.count(b"x", 6 * sign)
    process.flush()
    taken_back(client, state)
    half = b"+" if sign > 0 else b"-"
    client.hset(key, b"@/" + client.hget(key, "d") + half, 9)  # of 10: the peer has not heard of the last one
    client.hset(key, mapping={b"g.9.other" + half: 7, b"~g.9.other" + half: 7})  # deleted, and sent again
    assert process.read(()) == 10 * sign
    process.flush()
    process.flush()
    assert process.read(()) == 10 * sign


def test_what_is_lost_and_there_by_turns_counts(any_server: RealServer) -> None:
    """It is absent when the shard is read, and there when its record is, until the read takes what it has."""
    process = Process(any_server.client())
    process.count()
    process.flush()
    assert process.read(("lcfl", "cf") * 10) == process.counted


def test_the_number_of_shards_is_lost(any_server: RealServer) -> None:
    """A fail-over took it back, not what another process counted in the others: that is read as before."""
    other = ByHand(any_server.client(), choice=3, buckets=1, shards=4)
    other.count(b"x", 1)
    for _ in range(2):
        other.round()
    process = Process(other.client)
    assert process.read(()) == 1
    other.client.hdel(other.key(b"x"), "k")
    for _ in range(3):
        assert process.read(()) == 1
