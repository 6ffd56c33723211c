"""What a step of a schedule does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from unittest.mock import patch

from redis_counters.protocol.exchange import pull
from redis_counters.protocol.wire.commands import Script
from tests.simulation.plan import BUCKETS, Step
from tests.simulation.regions.plan import NAMES, Plan
from tests.simulation.regions.world import Tell, World

MAX_CHANGES = 1  # of a page, so that there are several


def run(plan: Plan, tell: Tell | None = None, texts: Mapping[Script, bytes] | None = None) -> World:
    """Run a schedule. Raises Violation, and whatever else goes wrong."""
    with patch.object(pull, "MAX_CHANGES", MAX_CHANGES):
        world = World(plan, tell, texts)
        for step in plan.steps:
            if tell is not None:
                tell(f"{world.now:.1f} {step}")
            STEPS[step.what](world, step)
            world.now += 0.05
            world.check()
        if tell is not None:
            tell("finish")
        world.finish()
    return world


def shorten(plan: Plan) -> Plan:
    """Return a schedule with fewer steps that goes wrong too."""
    size = len(plan.steps)
    while size >= 1:
        at = 0
        while at < len(plan.steps):
            shorter = replace(plan, steps=plan.steps[:at] + plan.steps[at + size :])
            if why_wrong(shorter) is not None:
                plan = shorter
            else:
                at += size
        size //= 2
    return plan


def why_wrong(plan: Plan) -> str | None:
    try:
        run(plan)
    except Exception as error:  # whatever it is, the schedule did not go as it should
        return f"{type(error).__name__}: {error}"
    return None


def _two(world: World, step: Step) -> tuple[int, int] | None:
    """Return source and destination, if both take part."""
    count = len(world.regions)
    source = step.numbers[0] % count
    destination = (source + 1 + step.numbers[1] % (count - 1)) % count
    linked = world.linked(source, destination) and world.takes_part(source, destination)
    return (source, destination) if linked else None


def _which(world: World, step: Step) -> int:
    return step.numbers[0] % len(world.regions)


def _count(world: World, step: Step) -> None:
    region, who, name, amount = step.numbers
    world.regions[region % len(world.regions)].count(who, NAMES[name % len(NAMES)], amount)


def _flush(world: World, step: Step) -> None:
    region = world.regions[_which(world, step)]
    region.flush(region.cores[step.numbers[1] % len(region.cores)])


def _between(begin: Callable[[World, int, int, int], object]) -> Callable[[World, Step], None]:
    def act(world: World, step: Step) -> None:
        pair = _two(world, step)
        if pair is not None:
            world.go(begin(world, *pair, step.numbers[2] % BUCKETS), iter(step.text))  # type: ignore[arg-type]

    return act


def _go_on(world: World, step: Step) -> None:
    if world.going:
        world.go(world.going.pop(step.numbers[0] % len(world.going)), iter(step.text))


def _fail_over(world: World, step: Step) -> None:
    which = _which(world, step)
    if world.regions[which].fail_over(1 + step.numbers[1] % 6):
        world.disconnected(which)
        world.happened["fail over"] += 1


def _confirm(world: World, step: Step) -> None:
    region = world.regions[_which(world, step)]
    region.confirms = not region.confirms


def _reset(world: World, step: Step, *, delete: bool = False) -> None:
    region = world.regions[_which(world, step)]
    region.reset(NAMES[step.numbers[1] % len(NAMES)], delete=delete)
    world.happened["delete" if delete else "reset"] += 1


def _erase(world: World, step: Step) -> None:
    world.erase(_which(world, step), NAMES[step.numbers[1] % len(NAMES)], step.numbers[2] % 3)


def _pass(world: World, step: Step) -> None:
    world.now += (0.1, 1.0, 15.0, 30.0)[step.numbers[0] % 4]


STEPS: dict[str, Callable[[World, Step], None]] = {
    "count": _count,
    "flush": _flush,
    "pull": _between(World.pull),
    "compare": _between(World.compare),
    "tidy": _between(World.tidy),
    "go on": _go_on,
    "late": lambda world, step: world.deliver_late(step.numbers[0]),
    "pass": _pass,
    "kill": lambda world, _step: world.forget(),
    "fail over": _fail_over,
    "confirm": _confirm,
    "settle": lambda world, step: world.regions[_which(world, step)].settle(),
    "reset": _reset,
    "delete": lambda world, step: _reset(world, step, delete=True),
    "erase": _erase,
    "evict": lambda world, step: world.evict(_which(world, step)),
    "admit": lambda world, step: world.admit(_which(world, step)),
}
