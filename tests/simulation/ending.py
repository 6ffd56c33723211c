"""How a schedule ends: nothing goes wrong any more, all gets across, and what is there is held to what was counted."""

from __future__ import annotations

import random

from redis_counters.protocol.write.states import Phase
from tests.simulation import janitor
from tests.simulation.ledger import Violation
from tests.simulation.plan import NAMES
from tests.simulation.process import Process
from tests.simulation.world import World

SETTLED = 4  # rounds until nothing is left of old errors,
HEALED = 60  # until all must be across,
ENDED = 400  # and until all must have closed


def end(world: World) -> None:
    """Late copies still arrive, at bad moments; every process gets all across, and closes. Raises Violation."""
    rng = random.Random(-world.plan.seed - 1)
    turn = 0
    while not all(process.dead for process in world.processes):
        if turn > ENDED:
            living = [p.core.writer.router for p in world.processes if not p.dead]
            actors = [[(actor.state.phase, actor.clean) for actor in router.actors()] for router in living]
            raise Violation(f"no end: {actors}")
        if world.late and rng.random() < 0.3:
            world.deliver_late(rng.randrange(1000))
        world.now += 1.0
        for process in world.processes:
            if not process.dead:
                _turn(process, turn)
        turn += 1
    _check_ended(world)
    janitor.sweep(world)
    while world.late:
        world.deliver_late(rng.randrange(1000))
    world.note_refused()
    world.ledger.check_end(world.database.keys, narrowed="narrowed" in world.plan.faults)
    check_reader(world)


def _turn(process: Process, turn: int) -> None:
    writer = process.core.writer
    if turn % 10 == 0:
        process.flush()
    if turn == HEALED:
        while process.reading.fetches:
            process.reading.go_on(0)
        if process.orphan is None:
            process.reading.begin(list(NAMES), "")
        if process.goals or not writer.clean:
            raise Violation(f"process {process.number}: after {HEALED} quiet rounds not all is across")
        process.world.note_refused()
        process.world.ledger.check_all_there(process.number)
    if turn > HEALED:
        process.close()
    writer.errors = []
    process.go()
    if turn > SETTLED and writer.errors:
        raise Violation(f"process {process.number}: an error while all is well: {writer.errors}")


def _check_ended(world: World) -> None:
    """Who closed in order leaves no actor that has something of it, and no slot."""
    for process in world.all:
        if process.closing and not process.cut_short:
            if "fail-over" not in world.plan.faults and process.orphan is None:
                _check_no_slots(world, process)
            left = [actor for actor in process.core.writer.router.actors() if actor.state.phase is not Phase.NEW]
            if left:
                raise Violation(f"process {process.number} has closed, and not its actors")


def _check_no_slots(world: World, process: Process) -> None:
    for key in world.database.keys:
        left = [field for field in world.database.fields(key) if field[:-1].lstrip(b"~") in process.folded]
        if left and b":c:" in key:
            raise Violation(f"process {process.number} has closed, and {key!r} still has {left}")


def check_reader(world: World, error: type[Violation] = Violation) -> None:
    """Somebody who has counted nothing reads what is there, and finds every shard."""
    reader = world.new_process(world.plan.processes[0]._replace(shards=1))
    asks = reader.core.reads.fetch(NAMES)
    commands = next(asks)
    while True:
        try:
            commands = asks.send([world.ask(command) for command in commands])
        except StopIteration as stop:
            values = stop.value
            break
    for name in NAMES:
        if values[name] != world.ledger.value(name) and name not in world.unpublished:
            raise error(f"{name!r} is read as {values[name]}, its shards hold {world.ledger.value(name)}")
