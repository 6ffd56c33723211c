"""Somebody gives counters fewer shards, stops anywhere, begins again; and copies of what he sent arrive late."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redis_counters.errors import CounterError
from redis_counters.protocol.upkeep import reshard
from redis_counters.protocol.upkeep.folding import Upkeep
from redis_counters.protocol.upkeep.reshard import Narrowed
from redis_counters.protocol.wire.commands import Command
from tests.simulation.plan import NAMES, RETENTION, WINDOW

if TYPE_CHECKING:
    from tests.simulation.world import World

DELAY = int(2 * WINDOW)
MOST = 3  # narrowings at a time


@dataclass
class Narrowing:
    """One attempt after the other. ``last``: what was sent last, of which copies may arrive."""

    name: bytes
    wanted: int
    steps: Generator[list[Command], list[object], Narrowed] | None = None
    commands: list[Command] | None = None
    not_before: float = 0.0


def begin(world: World, name: int, wanted: int) -> bool:
    if len(world.narrowings) >= MOST:
        return False
    world.narrowings.append(Narrowing(NAMES[name], wanted))
    return True


def go_on(world: World, which: int, count: int) -> bool:
    """So many questions are answered, or there is something to wait for, or it is over."""
    if not world.narrowings:
        return False
    one = world.narrowings[which % len(world.narrowings)]
    if world.now < one.not_before:
        return False
    for _ in range(count):
        if one.steps is None:
            delay = DELAY if "fail-over" in world.plan.faults else 0
            one.steps = reshard.narrow(world.space, one.name, one.wanted, Upkeep(3600, delay, RETENTION))
            one.commands = next(one.steps)
        assert one.commands is not None
        try:
            one.commands = one.steps.send([world.ask(command) for command in one.commands])
        except StopIteration as stop:
            one.steps = None
            told: Narrowed = stop.value
            one.not_before = world.now + told.wait
            if not told.wait:
                world.narrowings.remove(one)
                world.happened["narrowed" if not told.why and told.shards == one.wanted else "not narrowed"] += 1
            return True
        except CounterError:
            one.steps = None
            return True
    return True


def doubled(world: World, which: int) -> bool:
    """Copies of what is about to be sent arrive later, whatever has become of it by then."""
    if not world.narrowings:
        return False
    for command in world.narrowings[which % len(world.narrowings)].commands or ():
        if command.script is not None:
            world.keep_late(-1, command)
    return True


def stop(world: World, which: int) -> bool:
    """He is killed."""
    if not world.narrowings:
        return False
    del world.narrowings[which % len(world.narrowings)]
    return True
