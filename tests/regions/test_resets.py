"""Resets and deletes across regions, what is dropped of them, and copies that come too late."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from redis_counters import Exchange
from redis_counters.protocol.exchange.asks import Receive, Send
from redis_counters.protocol.wire.commands import Command, Script
from redis_counters.protocol.wire.region_names import Link
from tests.regions.support import Regions, fields, is_of_another


@pytest.mark.every(2, "seconds each")
@pytest.mark.parametrize("how", ["reset", "delete"])
def test_concurrent_increments_survive(three: Regions, how: str) -> None:
    """What had not arrived where it was reset counts on, everywhere; the name is usable at once."""
    exchange = three.exchange()
    for region in three.counters:
        three.incr(region, "a", 10)
    three.flush()
    exchange.run_once()
    three.incr("us", "a", 3)  # not seen by who resets
    three.flush()
    assert getattr(three.counters["eu"], how)("a") == 30
    three.incr("eu", "a", 4)
    three.incr("ap", "a", 5)
    three.flush()
    three.truth["a"] = 12
    exchange.run_once()
    assert three.wrong() == []
    assert three.counters["ap"].reset("a") == 12
    three.incr("us", "a", 1)
    three.flush()
    three.truth["a"] = 1
    exchange.run_once()
    assert three.wrong() == []
    exchange.close()


@pytest.mark.parametrize("how", ["reset", "delete"])
def test_two_at_once_do_not_add_up(two: Regions, how: str) -> None:
    """Both have seen the same; nothing is taken off twice."""
    exchange = two.exchange()
    two.incr("eu", "a", 10)
    two.incr("us", "a", 7)
    two.flush()
    exchange.run_once()
    for counters in two.counters.values():
        assert getattr(counters, how)("a") == 17
    two.truth["a"] = 0
    two.incr("us", "a", 2)
    two.flush()
    for _ in range(3):
        exchange.run_once()
        assert two.wrong() == []
    exchange.close()


def test_what_was_deleted_is_dropped(two: Regions) -> None:
    """Entries that count for nothing are gone from both regions, once both have heard of it; nothing comes back."""
    exchange = two.exchange()
    for region in two.counters:
        for n in range(30):
            two.incr(region, f"n{n}", 5)
    two.flush()
    exchange.run_once()
    for n in range(30):
        assert two.counters["eu"].delete(f"n{n}") == 10
        two.truth[f"n{n}"] = 0
    two.incr("eu", "n3", 1)
    two.flush()
    for _ in range(4):
        exchange.run_once()
        assert two.wrong() == []
    assert sum(pair.dropped for pair in exchange.stats().pairs.values()) >= 30
    assert not [field for field in fields(two.servers["eu"], "n1") if b"@" in field]
    assert not any(map(is_of_another, fields(two.servers["us"], "n1")))
    exchange.close()


def test_what_is_left_of_a_deleted_counter(two: Regions) -> None:
    """A key with a dot in each region, for good, as the documentation says: a delete frees no memory there."""
    exchange = two.exchange()
    exchange.run_once()
    two.incr("eu", "gone", 5)
    two.flush()
    exchange.run_once()
    two.counters["us"].delete("gone")
    for _ in range(4):
        exchange.run_once()
    (key,) = two.client("us").scan_iter("*:c:0:gone")
    assert list(two.client("us").hgetall(key)) == [b"d"]
    assert two.client("eu").hget(key, "d")
    two.truth["gone"] = 0
    two.incr("us", "gone", 2)
    two.flush()
    exchange.run_once()
    assert two.wrong() == []
    exchange.close()


class Late:
    """A pair driven by hand, whose last word to the destination is kept, and said later."""

    def __init__(self, exchange: Exchange, link: Link) -> None:
        self.places: Any = exchange._places
        self.link = link
        self.pair = self.places.pairs[link]

    def run(self, steps: Generator[Any, Any, None], *, keep: bool) -> list[Command]:
        """Do as the steps say; with ``keep``, no merge is sent, and they are returned."""
        kept: list[Command] = []
        transports = [self.places.places[name].transport for name in self.link]
        waiting: list[list[Command]] = [[], []]
        answer: object = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration:
                return kept
            if isinstance(step, Send):
                waiting[step.side].append(step.command)
                answer = None
                continue
            assert isinstance(step, Receive)
            command = waiting[step.side].pop(0)
            if keep and command.script is Script.ENTRIES_MERGE and len(command.keys) > 4:
                kept.append(command)
                steps.close()
                return kept
            (answer,) = transports[step.side].ask([command])

    def say(self, commands: list[Command]) -> list[object]:
        return [self.places.places[self.link[1]].transport.ask([command])[0] for command in commands]


@pytest.mark.every(2, "seconds each")
@pytest.mark.parametrize("increments", [0, 1])
def test_a_copy_that_comes_after_all_was_dropped(two: Regions, increments: int) -> None:
    """An exchange sleeps with what it was told before a reset; it wakes up when both regions have forgotten it."""
    exchange = two.exchange()
    two.incr("eu", "a", 5)
    two.incr("eu", "b", 1)
    two.flush()
    exchange.run_once()
    two.incr("eu", "a", 1)
    two.flush()
    late = Late(two.exchange(links=[("eu", "us")]), ("eu", "us"))
    late.run(late.pair.connect(), keep=False)
    kept = late.run(late.pair.pull_all(set()), keep=True)
    assert kept, "it has something to say"
    assert two.counters["us"].delete("a") == 5
    for _ in range(increments):
        two.incr("eu", "b", 1)
    two.flush()
    for _ in range(4):
        exchange.run_once()
    assert two.read("a") == {"eu": 1, "us": 1}
    assert two.counters["eu"].delete("a") == 1
    for _ in range(4):
        exchange.run_once()
    assert two.read("a") == {"eu": 0, "us": 0}
    answers: Any = late.say(kept)
    assert [answer[0] for answer in answers] == [b"OTHER"]
    for _ in range(2):
        assert two.read("a") == {"eu": 0, "us": 0}
        exchange.run_once()
    exchange.close()
