"""How processes live by themselves: flushers run at their pace, and nobody calls flush() or close().

So a schedule ends, before its processes do: nothing goes wrong any more, and what they hold must be there soon.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from tests.simulation.ending import check_reader
from tests.simulation.ledger import TooLate
from tests.simulation.plan import GROWING, NAMES
from tests.simulation.process import Process
from tests.simulation.world import World

BUSY_POLL, IDLE_POLL = 0.5, 2.0  # seconds between looks of a flusher at whether there is something to do
AT_ONCE = 12  # rounds, one after the other
SOON = 5.0  # seconds until what a process holds that is used is there,
AT_LAST = 60.0 + 3 * IDLE_POLL  # and what one holds that nobody uses
USES = ("none", "counts", "reads", "reads all", "both")


class Living(NamedTuple):
    """A process, what is done with it, and with which counter."""

    process: Process
    use: str
    name: bytes


def live(world: World, milliseconds: int) -> None:
    """Time passes, and flushers do what they do in it."""
    poll = max(BUSY_POLL, milliseconds / 10_000)
    end = world.now + milliseconds / 1000
    while world.now < end:
        world.now = min(world.now + poll, end)
        _flushers(world)


def _flushers(world: World) -> None:
    for process in world.processes:
        if not process.dead and not process.frozen:
            process.go()


def go_on(world: World) -> None:
    """Nothing goes wrong any more but that late copies arrive, and all that living processes hold is there in time.

    Raises TooLate, Violation.
    """
    rng = random.Random(-world.plan.seed - 2)
    _calm(world)
    living = [
        Living(process, _use_of(process, rng), rng.choice(GROWING)) for process in world.processes if not process.dead
    ]
    for each in living:
        if each.use != "none":
            _at_once(*each)
    end = world.now + SOON
    while world.now < end:
        world.now += BUSY_POLL
        _arrive(world, rng, 0.1)
        for each in living:
            if world.now < end - 2 * BUSY_POLL:
                _use(*each)
        _flushers(world)
    idle = [each.process for each in living if each.use == "none" and not each.process.closing]
    for each in living:
        if each.process not in idle:
            _check(each.process, f"used for {SOON:g} s")
    if idle:
        end = world.now + AT_LAST - SOON
        while world.now < end:
            world.now += IDLE_POLL
            _arrive(world, rng, 0.05)
            _flushers(world)
        for process in idle:
            _check(process, f"idle for {AT_LAST:g} s")
    check_reader(world, TooLate)


def _calm(world: World) -> None:
    world.squatted.clear()
    world.database.delete(*(key for key, value in world.database.keys.items() if value == b"not a hash"))
    world.keep()
    world.trouble_until = 0.0
    for process in world.processes:
        if process.journal is not None:
            process.journal.failing = 0
        while process.reading.fetches:  # no read waits longer than its time
            process.reading.go_on(0)


def _use_of(process: Process, rng: random.Random) -> str:
    use = rng.choice(USES)
    return "none" if process.orphan is not None or process.closing else use


def _use(process: Process, use: str, name: bytes) -> None:
    if use in ("counts", "both"):
        process.count(name, 1)
    if use in ("reads", "both"):
        process.reading.begin([name], "n")
    if use == "reads all":
        process.reading.begin(list(NAMES), "n")


def _at_once(process: Process, use: str, name: bytes) -> None:
    """What was lost is there again in the same moment if a flush goes over a new connection, or all was read."""
    core, world = process.core, process.world
    failures = core.failures
    _use(process, use, name)
    for _ in range(AT_ONCE):
        process.go()
    if core.failures == failures:
        if use == "reads all":
            _check(process, "and was read")
        elif process.connections.as_of == world.fall_backs > 0:
            _check(process, "with a new connection")


def _arrive(world: World, rng: random.Random, likely: float) -> None:
    if world.late and rng.random() < likely:
        world.deliver_late(rng.randrange(1000))


def _check(process: Process, late: str) -> None:
    """All that it holds is there, but for what Redis has refused: that waits until it is counted again, or flushed."""
    if process.dead or process.closing:
        return
    process.world.note_refused()
    refused = {error.counter for error in process.core.writer.outstanding.refusals() if error.counter is not None}
    process.world.ledger.check_all_there(process.number, but=refused, late=late)
