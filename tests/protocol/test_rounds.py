"""A round sends what was counted before it began, and what is counted meanwhile is for the next one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from redis_counters import Counters
from redis_counters.protocol.wire.commands import Script
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.protocol.wire.settings import make_settings
from redis_counters.protocol.write.buffer import Buffer
from redis_counters.protocol.write.writer import Writer
from tests.faces.either import commandstats, reset_stats, truth
from tests.protocol.by_hand import ByHand
from tests.servers import RealServer


@pytest.mark.parametrize("how", ["by one", "by amount", "downwards"])
@pytest.mark.parametrize("names", [1, 3])
def test_a_round_sends_what_was_counted_before_it(any_server: RealServer, names: int, how: str) -> None:
    """The same names are counted on before each answer, yet the round is one script a bucket; the next sends the rest.

    Else a hot counter would be sent as fast as Redis answers, instead of once per interval.
    """
    hand = ByHand(any_server.client(), buckets=1)
    counted = 0

    def count() -> None:
        nonlocal counted
        for number in range(names):
            if how == "by one":
                hand.buffer.ones.append(b"n%d" % number)
            else:
                hand.buffer.amounts.append((b"n%d" % number, 1 if how == "by amount" else -1))
        hand.writer.accumulator.drain()
        counted += 1 if how != "downwards" else -1

    def values() -> set[int]:
        return {hand.value(b"n%d" % number, 1) for number in range(names)}

    count()
    assert hand.pumped_round(count) == {Script.ACTOR_OPEN: 1, Script.SLOTS_MERGE: 1}
    for _ in range(3):
        before = counted
        assert hand.pumped_round(count) == {Script.SLOTS_MERGE: 1}
        assert values() == {before}
    assert hand.pumped_round(lambda: None) == {Script.SLOTS_MERGE: 1}
    assert values() == {counted}
    assert hand.writer.clean
    assert hand.pumped_round(lambda: None) == {}


class Flooded(list[Any]):
    """A log that others count into while it is emptied: each time something is taken away, as much is there again."""

    def __init__(self, entry: object) -> None:
        super().__init__([entry])
        self.entry = entry
        self.drains = 0

    def __delitem__(self, index: Any) -> None:
        super().__delitem__(index)
        self.drains += 1
        if self.drains < 1000:  # else a drain without an end would hold the test up
            self.append(self.entry)


def test_a_drain_ends_though_others_go_on_counting() -> None:
    """Reads, figures and flushes first take in what was counted; what is counted meanwhile does not keep them there."""
    writer = Writer(make_settings(), Buffer(), lambda: "0" * 12)
    for settled in (False, True):
        if settled:
            writer.settle(KeySpace(b"rc", 16), 0.0)
        for takes_in in (writer.accumulator.drain, writer.absorb, writer.outstanding.pending, writer.new_round):
            ones, amounts = Flooded(b"x"), Flooded((b"x", 2))
            writer.accumulator.buffer.ones, writer.accumulator.buffer.amounts = ones, amounts
            takes_in()
            assert ones.drains + amounts.drains <= 4, takes_in


def test_a_hot_counter_is_sent_once_per_interval(any_server: RealServer) -> None:
    """A second of counting without pause, at ten flushes a second, sends some dozens of scripts at the most."""
    with any_server.client() as client, Counters(client, flush_interval=0.1) as counters:
        counters.incr("x")
        counters.flush()
        reset_stats(any_server)
        counted, end = 1, time.monotonic() + 1.0
        while time.monotonic() < end:
            counters.incr("x")
            counted += 1
            if counted % 10 == 0:
                time.sleep(0.0001)  # so that the thread that flushes has its turns
        calls = commandstats(any_server)
        scripts = calls.get("evalsha", 0) + calls.get("eval", 0)
        assert counted > 100
        assert 1 <= scripts <= 25
    assert truth(any_server, ["x"]) == {b"x": counted}


class WalkedOver(dict[bytes, int]):
    """Amounts that know how often somebody began to go through them."""

    walks = 0

    def __iter__(self) -> Iterator[bytes]:
        self.walks += 1
        return super().__iter__()


def test_what_was_counted_before_the_first_answer_is_gone_through_once() -> None:
    """To take the first from a dict again and again is O(names^2): it is looked for behind all that were taken."""
    writer = Writer(make_settings(), Buffer(), lambda: "0" * 12)
    early = WalkedOver()
    writer.router.unrouted = (early, {})
    for number in range(1_000):
        writer.accumulator.buffer.amounts.append((b"n%d" % number, 1))
    writer.accumulator.drain()
    assert len(early) == 1_000
    writer.settle(KeySpace(b"rc", 16), 0.0)
    assert not early
    assert early.walks == 1
    assert sum(len(bucket.plus[0]) for bucket in writer.router.buckets) == 1_000


def test_increments_that_keep_coming_do_not_hold_up_decrements(any_server: RealServer) -> None:
    """Each round is cut after one flush, and finds a new name to increment."""
    hand = ByHand(any_server.client(), buckets=1, max_batch=1)
    hand.count(b"down", -1)
    for number in range(4):
        hand.count(b"up %d" % number, 1)
        hand.writer.new_round()
        request = hand.request()
        while request is not None and request.command.script is not Script.SLOTS_MERGE:
            hand.answer(request)
            request = hand.request()
        assert request is not None
        hand.answer(request)
    assert hand.value(b"down", 1) == -1
