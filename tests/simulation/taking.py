"""Processes reset and delete counters: the real generator, stopped anywhere, and with copies that arrive late."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from redis_counters.errors import CounterError
from redis_counters.protocol.read import reset as resetting
from redis_counters.protocol.read.reset import Steps
from redis_counters.protocol.wire.commands import Command
from tests.simulation.ledger import Violation
from tests.simulation.plan import NAMES

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.world import World

MOST = 3  # at a time


@dataclass
class Taking:
    """One call of `reset` or `delete`. ``gained``: what had come to the counter until it began."""

    process: Process
    name: bytes
    steps: Steps
    commands: list[Command]
    gained: int
    fall_backs: int
    answers: list[object] = field(default_factory=list)
    taken: int = 0  # so far

    def ask(self, world: World) -> None:
        """The next command is answered."""
        before = world.ledger.value(self.name)
        self.answers.append(world.ask(self.commands[len(self.answers)]))
        self.taken += before - world.ledger.value(self.name)


def begin(process: Process, name: int, delete: int) -> bool:
    world, counter = process.world, NAMES[name]
    if len(world.takings) >= MOST or process.orphan is not None:
        return False
    steps = resetting.take_away(process.core.reads, counter, resetting.Taken(), delete=bool(delete))
    commands = list(next(steps))
    world.takings.append(Taking(process, counter, steps, commands, world.ledger.gained[counter], world.fall_backs))
    return True


def go_on(world: World, which: int, count: int) -> bool:
    """So many commands are answered, or it is over."""
    if not world.takings:
        return False
    one = world.takings[which % len(world.takings)]
    if one.process.dead:
        world.takings.remove(one)
        return True
    for _ in range(count):
        one.ask(world)
        if len(one.answers) < len(one.commands):
            continue
        try:
            one.commands, one.answers = list(one.steps.send(one.answers)), []
        except StopIteration as stop:
            world.takings.remove(one)
            _check(world, one, stop.value)
            world.happened["taken away"] += 1
            return True
        except CounterError as error:
            world.takings.remove(one)
            if "other type" not in world.plan.faults:
                raise Violation(f"{one.name!r} could not be reset: {error}") from error
            return True
    return True


def _check(world: World, one: Taking, told: int) -> None:
    """Nothing of what was there when it began is there now, unless a fail-over has brought it back.

    Where a fail-over took back how many shards there are, those are not found before somebody has told it again.
    """
    if told != one.taken and one.name not in world.ledger.expired:
        raise Violation(f"{told} was told to be taken away of {one.name!r}, and {one.taken} was")
    if world.fall_backs != one.fall_backs or one.name in world.narrowed | world.unpublished:
        return
    left, gained = world.ledger.magnitude(one.name), world.ledger.gained[one.name] - one.gained
    if left > gained:
        raise Violation(f"{one.name!r} was reset, and holds {left}, of which {gained} came meanwhile")


def doubled(world: World, which: int) -> bool:
    """Copies of what is about to be sent arrive later: they take away what is there then."""
    if not world.takings:
        return False
    one = world.takings[which % len(world.takings)]
    for command in one.commands:
        if command.script is not None:
            world.keep_late(one.process.number, command)
    return True


def stop(world: World, which: int) -> bool:
    """The caller gives up, or its answer is lost."""
    if not world.takings:
        return False
    world.takings.pop(which % len(world.takings)).steps.close()
    return True
