"""What is done to the actors of others: they are closed, folded, and their records cleaned up."""

from __future__ import annotations

from redis_counters.protocol.wire.commands import Command, Script
from tests.simulation.ledger import Violation
from tests.simulation.plan import RETENTION, WINDOW
from tests.simulation.process import Process
from tests.simulation.world import World

DELAY = int(2 * WINDOW)  # seconds from closing to folding: what keeps a fail-over from opening what was folded
MOST_STEPS = 200  # of a janitor in one go
HOUR = 45.0  # seconds: what stands for a long time here


def keep_house(process: Process, steps: int) -> bool:
    """The process's own janitor does so many steps; False if nothing is due."""
    housekeeping = process.core.housekeeping
    for step in range(steps):
        commands = housekeeping.commands()
        if commands is None:
            return step > 0
        housekeeping.answered([process.world.ask(command) for command in commands], 0.0)
        if step < steps - 1:
            process.world.now += housekeeping.wait() if housekeeping.stepper.steps is not None else 0.0
    return True


def night(process: Process, hours: int) -> None:
    """Much time passes, and this process keeps house in it: who is frozen is closed, folded, perhaps forgotten."""
    for _ in range(hours):
        process.world.now += HOUR
        keep_house(process, MOST_STEPS)


def reap(world: World, which: int) -> bool:
    """Somebody tries to close an actor, however lately it was heard of."""
    found = world.records()
    if not found:
        return False
    registry, actor, _ = found[which % len(found)]
    world.ask(Command(Script.ACTORS_REAP, (registry,), (0, actor)))
    return True


def fold(world: World, which: int, mask: int) -> bool:
    """Somebody tries to fold some slots of an actor, or all; he is let to if it was closed long enough ago."""
    found = world.records()
    if not found:
        return False
    registry, actor, _ = found[which % len(found)]
    some = [key for n, key in enumerate(world.shard_keys(registry)) if mask >> n % 4 & 1]
    delay = DELAY if "fail-over" in world.plan.faults else 0
    world.ask(Command(Script.SLOTS_FOLD, (registry, *some), (actor, delay)))
    return True


def clean(world: World, which: int) -> bool:
    """Somebody tries to have an actor's record forgotten."""
    found = world.records()
    if not found:
        return False
    registry, actor, _ = found[which % len(found)]
    world.ask(Command(Script.ACTORS_CLEAN, (registry,), (0, RETENTION, actor)))
    return True


def sweep(world: World) -> None:
    """Every actor is closed and folded, whoever it belonged to; then no slot is left."""
    for registry, actor, record in world.records():
        if record[:1] == b"o":
            world.ask(Command(Script.ACTORS_REAP, (registry,), (0, actor)))
    if "registry lost" in world.plan.faults:
        return
    for registry, actor, _ in world.records():
        world.ask(Command(Script.SLOTS_FOLD, (registry, *world.shard_keys(registry)), (actor, 0)))
    if "fail-over" in world.plan.faults:
        return
    for registry in world.space.registries:
        for key in world.shard_keys(registry):
            fields = world.database.fields(key)
            left = [f for f in fields if b"." in f and f[-1:] in (b"+", b"-") and f[:2] != b"s." and b"@" not in f]
            if left:
                raise Violation(f"{key!r} still has {left} after folding")
