"""A counter on "auto" gets as many shards as its slot updates ask for: no more, never fewer again, and soon."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest

from redis_counters.events import EventKind
from redis_counters.protocol.core import Core
from redis_counters.protocol.flush.round import RecordStep, SendStep
from redis_counters.protocol.upkeep.auto_shards import LOOKERS, WINDOWS, Growth, most_shards, shards_for
from redis_counters.protocol.wire.commands import Script
from redis_counters.protocol.wire.settings import make_settings
from redis_counters.protocol.write.frequent import MAX_WATCHED, PERIOD_S
from tests.simulation.server import LuaServer

INTERVAL = 0.1


class Crowd:
    """Processes at one server, which all flush once per interval; a clock that goes from interval to interval."""

    def __init__(self, count: int, chance: Callable[[], float] = lambda: 0.5, **options: object) -> None:
        self.now = 1_000_000.0
        self.numbers = itertools.count()
        self.server = LuaServer(lambda: self.now)
        self.chance = chance
        self.options = options
        self.asked = 0  # commands of looks
        self.cores = [self.core(**options) for _ in range(count)]

    def core(self, **options: object) -> Core:
        settings = make_settings(flush_interval=INTERVAL, **options)  # type: ignore[arg-type]
        return Core(settings, lambda: f"{next(self.numbers):012x}", lambda: self.now, lambda: self.now, self.chance)

    def flush(self, core: Core) -> None:
        steps, answers, answer = core.round(), list[object](), None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration:
                return
            answer = None
            if isinstance(step, SendStep):
                answers.append(self.server.run(step.command, text=step.text or step.command.script is not None))
            else:
                assert not isinstance(step, RecordStep)
                answer = answers.pop(0)

    def look(self, core: Core) -> None:
        house = core.housekeeping
        while (commands := house.commands()) is not None:
            self.asked += len(commands)
            house.answered([self.server.run(command, text=command.script is not None) for command in commands], 0.0)

    def live(self, seconds: float, names: tuple[str, ...] = ("x",), *, counting: int | None = None) -> None:
        """All count and flush, and look when they are due, for so long."""
        for _ in range(round(seconds / INTERVAL)):
            for core in self.cores[:counting]:
                for name in names:
                    core.buffer.ones.append(name)
            for core in self.cores:
                self.flush(core)
                self.look(core)
            self.now += INTERVAL

    def shards(self, name: bytes = b"x") -> int:
        """Return what Redis tells."""
        keys = self.cores[0].writer.router.presumed_keys
        return int(self.server.database.fields(keys.shard_key(name, 0)[1]).get(b"k", b"1"))

    def value(self, name: bytes = b"x") -> int:
        reader = self.core()
        asks = reader.reads.fetch([name])
        commands = next(asks)
        while True:
            answers: list[object] = [self.server.run(c, text=c.script is not None) for c in commands]
            try:
                commands = asks.send(answers)
            except StopIteration as stop:
                return int(stop.value[name])


@pytest.mark.parametrize(
    ("processes", "shard_rate", "expected"),
    [(4, 45.0, 1), (4, 39.0, 2), (4, 10.1, 4), (4, 9.9, 8), (8, 10.1, 8), (8, 0.1, 16), (1, 4.0, 4)],
)
def test_the_rule(processes: int, shard_rate: float, expected: int) -> None:
    """K is the smallest power of two with K times the safe rate at or above the rate; the buckets are the limit."""
    crowd = Crowd(processes, shards="auto", shard_rate=shard_rate)
    crowd.live(3 * PERIOD_S)
    assert crowd.shards() == expected
    crowd.live(5 * PERIOD_S)
    assert crowd.shards() == expected, "it swings"
    assert crowd.value() == processes * round(8 * PERIOD_S / INTERVAL)


def test_it_reacts_within_seconds_and_is_told_once() -> None:
    """Two periods after the load has come, all processes write to their shards; those that grew it say so."""
    crowd = Crowd(8, shards="auto", shard_rate=25.0)
    crowd.live(3 * PERIOD_S, counting=2)  # 20 a second
    assert crowd.shards() == 1
    crowd.live(2 * PERIOD_S)
    assert crowd.shards() == 4
    crowd.live(2 * PERIOD_S)
    assert {core.writer.router.shards.of(b"x") for core in crowd.cores} == {4}
    grown = [e for c in crowd.cores for e in c.take_events() if e.kind is EventKind.SHARDS_GROWN]
    assert sum(core.stats().grown for core in crowd.cores) == len(grown) > 0
    assert {event.counter for event in grown} == {"x"}
    assert max(event.amount or 0 for event in grown) == 4  # (a look in which the load came may have seen half of it)
    keys = crowd.cores[0].writer.router.presumed_keys
    used = [n for n in range(4) if len(crowd.server.database.fields(keys.shard_key(b"x", n)[1])) > 1]
    assert len(used) > 1


def test_it_never_shrinks() -> None:
    crowd = Crowd(4, shards="auto", shard_rate=10.1)
    crowd.live(3 * PERIOD_S)
    crowd.live(5 * PERIOD_S, counting=0)
    crowd.live(5 * PERIOD_S, counting=1)
    assert crowd.shards() == 4


def test_writers_that_do_not_follow_are_no_reason_to_grow_on() -> None:
    """Those who stay in shard 0 load it whatever K is: the rate of the whole counter is what counts."""
    crowd = Crowd(4, shards="auto", shard_rate=10.1)
    crowd.cores += [crowd.core() for _ in range(4)]  # never read, and never look
    crowd.live(10 * PERIOD_S)
    assert crowd.shards() == 8
    assert {core.writer.router.shards.of(b"x") for core in crowd.cores[4:]} == {1}


def test_a_burst_is_no_reason() -> None:
    """Many updates in one interval out of seven are not a rate that lasts, whenever it is looked."""
    crowd = Crowd(LOOKERS + 1, shards="auto", shard_rate=25.0)  # so few that each of them looks every time
    for _ in range(40):
        crowd.live(INTERVAL)
        crowd.live(6 * INTERVAL, counting=2)
    assert crowd.shards() == 1


@pytest.mark.parametrize("phase", range(7))
def test_bursts_are_no_reason_for_more_than_the_rest_asks_for(phase: int) -> None:
    """The smallest count of all windows is the rate, wherever among them a burst comes: also as the last."""
    crowd = Crowd(9, shards="auto", shard_rate=25.0)
    crowd.live(phase * INTERVAL, counting=4)  # 40 a second
    for _ in range(10):
        crowd.live(INTERVAL)
        crowd.live(6 * INTERVAL, counting=4)
    assert crowd.shards() == 2


@pytest.mark.parametrize(
    ("shards", "auto", "fixed"),
    [("auto", ["x", "y"], []), ({"x": "auto"}, ["x", "x2"], ["y"]), ({"": "auto", "y": 1}, ["x"], ["y", "yy"])],
)
def test_which_counters_grow(shards: object, auto: list[str], fixed: list[str]) -> None:
    crowd = Crowd(4, shards=shards, shard_rate=10.1)
    crowd.live(5 * PERIOD_S, (*auto, *fixed))
    assert [crowd.shards(name.encode()) for name in auto] == [4] * len(auto)
    assert [crowd.shards(name.encode()) for name in fixed] == [1] * len(fixed)


def test_a_handle_asks_for_it() -> None:
    """Also of a process's child, whose handles go on."""
    crowd = Crowd(4, shard_rate=10.1)
    for core in crowd.cores:
        core.declare(b"x", "auto")
        core.begin()
    crowd.live(3 * PERIOD_S, ("x", "y"))
    assert (crowd.shards(b"x"), crowd.shards(b"y")) == (4, 1)


def test_who_writes_to_shard_0_publishes_too() -> None:
    """The process that finds the rate tells of the shards, though it need not use any but shard 0 itself."""
    crowd = Crowd(1, shards="auto", shard_rate=1.0)
    crowd.cores[0].writer.router.choice = 0
    crowd.live(3 * PERIOD_S)
    assert crowd.shards() == 16


def test_a_counter_that_is_counted_now_and_then_is_not_looked_at() -> None:
    """Nor one whose number of slots cannot make the rate."""
    crowd = Crowd(1, shards="auto", shard_rate=0.001)
    for number in range(60):
        crowd.live(INTERVAL, (f"name {number}",))
    assert crowd.asked == 0
    busy = Crowd(1, shards="auto", shard_rate=11.0)
    busy.live(10 * PERIOD_S)
    assert 0 < busy.asked <= 2 * 14, "more than two questions a period"


@pytest.mark.slow("sixty processes for fifteen periods")
def test_many_processes_look_in_turn() -> None:
    """However many there are, some of them measure in a period."""
    chances = itertools.cycle([n / 97 for n in range(97)])
    crowd = Crowd(60, lambda: next(chances), shards="auto", shard_rate=500.0)
    crowd.live(5 * PERIOD_S)
    before = crowd.asked
    crowd.live(10 * PERIOD_S)
    measured = crowd.asked - before - 60 * 12  # each asks for K once a period
    assert measured <= 12 * 4 * LOOKERS * (WINDOWS + 1), measured
    assert crowd.shards() == 2


def test_counters_in_many_scripts_are_found() -> None:
    """A hot counter among more names than one script takes is found by and by; of many hot ones, some at a time."""
    crowd = Crowd(1, shards="auto", shard_rate=5.1, max_batch=3, buckets=2)
    names = tuple(f"n{number}" for number in range(MAX_WATCHED + 10))
    crowd.live(8 * PERIOD_S, names)
    assert {crowd.shards(name.encode()) for name in names} == {2}


def test_something_else_in_a_shards_place_stops_no_look() -> None:
    crowd = Crowd(2, shards="auto", shard_rate=5.1)
    crowd.live(PERIOD_S, ("x", "y"))
    keys = crowd.cores[0].writer.router.presumed_keys
    crowd.server.database.keys[keys.shard_key(b"x", 0)[1]] = b"text"
    crowd.live(3 * PERIOD_S, ("x", "y"))
    assert crowd.shards(b"y") == 4


def test_an_answer_that_does_not_come_ends_a_look_and_no_more() -> None:
    crowd = Crowd(1, shards="auto", shard_rate=1.0)
    core, house = crowd.cores[0], crowd.cores[0].housekeeping
    for _ in range(3):
        core.buffer.ones.append("x")
        crowd.flush(core)
        crowd.now += INTERVAL
    assert house.commands() is not None
    house.abandoned()
    assert house.commands() is None
    crowd.live(3 * PERIOD_S)
    assert crowd.shards() == 16


def test_nothing_is_due_without_auto() -> None:
    crowd = Crowd(2, shards={"x": 4})
    crowd.live(2 * PERIOD_S)
    assert [core.housekeeping.growth.wait() for core in crowd.cores] == [math.inf] * 2
    assert isinstance(crowd.cores[0].housekeeping.growth, Growth)
    assert Script.SLOTS_READ not in crowd.server.known


def test_the_limit() -> None:
    """At most as many shards as there are buckets, rounded down to a power of two."""
    assert [most_shards(buckets) for buckets in (1, 2, 3, 15, 16, 17, 16_384)] == [1, 2, 2, 8, 16, 16, 1024]
    assert [shards_for(rate, 10.0, 16) for rate in (0.1, 10.0, 10.1, 40.0, 41.0, 1e9)] == [1, 1, 2, 4, 8, 16]
