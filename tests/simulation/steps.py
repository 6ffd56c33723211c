"""What each kind of step does, and a run from the first step to the end.

A step that finds nothing to do returns False.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from redis_counters.protocol.wire.commands import Script
from redis_counters.protocol.wire.keys import meta_key
from redis_counters.protocol.write import history
from tests.simulation import janitor, living, narrowing, taking
from tests.simulation.ending import end
from tests.simulation.plan import MOST_SHARDS, NAMES, Plan, Step
from tests.simulation.process import Process
from tests.simulation.world import BEGINNING, World

MOST_PROCESSES = 4  # at a time
SHORT_MEMORY = (3, 2)  # in place of MAX_SLOTS and MAX_UNANSWERED

Do = Callable[..., bool | None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to. ``exact``: all that was counted is there, and nothing else."""

    exact: bool
    uncertain: int
    reads: int
    happened: Mapping[str, int]


def run(plan: Plan, texts: Mapping[Script, bytes] | None = None, tell: Callable[[str], None] | None = None) -> Outcome:
    """Return what the schedule came to. Raises Violation."""
    world = World(plan, texts, tell)
    memory = history.MAX_SLOTS, history.MAX_UNANSWERED
    try:
        if "short memory" in plan.faults:
            history.MAX_SLOTS, history.MAX_UNANSWERED = SHORT_MEMORY
        for step in plan.steps:
            _take(world, step)
        if tell is not None:
            tell("all is well from here on")
        _thaw(world)
        living.go_on(world)
        end(world)
    finally:
        history.MAX_SLOTS, history.MAX_UNANSWERED = memory
    return Outcome(world.ledger.exact, world.uncertain, sum(p.reading.values for p in world.all), world.happened)


def _take(world: World, step: Step) -> None:
    if world.tell is not None:
        words = " ".join([step.what, *map(str, step.numbers), step.text])
        world.tell(f"{world.now - BEGINNING:8.1f} s  {words}")
    if STEPS[step.what](world, *step.numbers, *([step.text] if step.text else [])) is not False:
        world.happened[step.what] += 1


def _of_process(do: Callable[..., bool | None]) -> Do:
    """Return a step whose first number chooses a process that lives."""

    def step(world: World, which: int, *rest: object) -> bool | None:
        process = world.alive(which)
        return False if process is None else do(process, *rest)

    return step


def _bits(mask: int) -> Iterable[int]:
    return (bit for bit in range(MOST_SHARDS) if mask >> bit & 1)


# -- processes


def _count(process: Process, name: int, amount: int) -> bool:
    return process.count(NAMES[name], amount)


def _read(process: Process, mask: int, how: str = "") -> bool:
    if process.orphan is not None:
        return False
    process.reading.begin([NAMES[bit] for bit in _bits(mask) if bit < len(NAMES)], how)
    return True


def _kill(process: Process) -> None:
    world = process.world
    journal = process.journal
    world.ledger.ended(process.number, journal.recorded if journal is not None else {})
    world.unpublished |= world.narrowed
    process.kill()


def _journal_fails(process: Process) -> bool:
    if process.journal is None or process.journal.stored.always:
        return False
    process.journal.failing = 5
    return True


def _freeze(process: Process) -> bool:
    """It does nothing until it is thawed; one process at least goes on."""
    process.frozen = True
    if process.world.alive(0) is None:
        process.frozen = False
    return process.frozen


def _thaw(world: World) -> None:
    for process in world.processes:
        process.frozen = False


def _fork(process: Process) -> bool:
    world = process.world
    if len(world.processes) >= MOST_PROCESSES or process.orphan is not None:
        return False
    world.processes.append(world.new_process(process.options, process))
    return True


def _start(world: World, which: int) -> bool:
    """In the place of a process that is gone there is a new one."""
    places = [n for n, process in enumerate(world.processes) if process.dead]
    if not places:
        return False
    place = places[which % len(places)]
    world.processes[place] = world.new_process(world.processes[place].options)
    return True


# -- the server


def _pass(world: World, milliseconds: int) -> None:
    world.now += milliseconds / 1000


def _late(world: World, which: int) -> bool:
    if not world.late:
        return False
    world.deliver_late(which)
    return True


def _fail_over_one(world: World, bucket: int, lost: int, form: int = 0) -> bool:
    """The node of one bucket fails over, the others do not. (Only where fail-overs are among the faults.)"""
    return "fail-over" in world.plan.faults and world.fail_over_one(bucket, lost, form)


def _fall_far_back(world: World, lost: int, form: int, bucket: int = 0) -> bool:
    """A fail-over takes back more than it should: of the node of one bucket, or of all (0)."""
    if bucket:
        return world.fail_over_one(bucket, lost, form, far=True)
    return world.fail_over(lost, form, far=True)


def _trouble(world: World, milliseconds: int) -> None:
    """For so long, Redis answers nothing but errors, and applies nothing."""
    world.trouble_until = world.now + milliseconds / 1000


def _forget_scripts(world: World) -> None:
    world.server.known.clear()


def _lose_registries(world: World, mask: int) -> None:
    """No fail-over brings them back: that would be another fault."""
    world.database.delete(*(world.space.registries[n] for n in _bits(mask) if n < world.plan.buckets))
    world.keep()
    world.history = [world.history[-1]]


def _lose_meta(world: World) -> None:
    world.database.delete(meta_key(b"t"))
    world.keep()


def _delete(world: World, name: int, mask: int) -> bool:
    """Some shards of a counter, or all, are gone: by hand, expired, evicted."""
    keys = [world.space.shard_key(NAMES[name], n)[1] for n in _bits(mask)]
    there = [key for key in keys if key in world.database.keys and key not in world.squatted]
    for key in there:
        world.lose(key, NAMES[name])
    world.database.delete(*there)
    world.keep()
    return bool(there)


def _squat(world: World, name: int, shard: int) -> None:
    """Something of another type is put in the place of a shard."""
    key = world.space.shard_key(NAMES[name], shard)[1]
    world.lose(key, NAMES[name])
    world.database.keys[key] = b"not a hash"
    world.squatted.add(key)
    world.keep()


def _unsquat(world: World) -> None:
    world.squatted.clear()
    world.database.delete(*(key for key, value in world.database.keys.items() if value == b"not a hash"))
    world.keep()


STEPS: dict[str, Do] = {
    "pass": _pass,
    "live": living.live,
    "count": _of_process(_count),
    "round": _of_process(Process.go),
    "read": _of_process(_read),
    "read on": _of_process(lambda process, which: process.reading.go_on(which)),
    "serve": _of_process(Process.serve),
    "absorb": _of_process(lambda process: process.core.writer.absorb()),
    "flush": _of_process(Process.flush),
    "declare": _of_process(lambda process, name, shards: process.core.declare(NAMES[name], shards)),
    "grow": _of_process(Process.grow),
    "narrow": narrowing.begin,
    "narrow on": narrowing.go_on,
    "narrow late": narrowing.doubled,
    "stop narrowing": narrowing.stop,
    "take away": _of_process(taking.begin),
    "take on": taking.go_on,
    "take late": taking.doubled,
    "stop taking": taking.stop,
    "close": _of_process(Process.close),
    "kill": _of_process(_kill),
    "fork": _of_process(_fork),
    "start": _start,
    "journal fails": _of_process(_journal_fails),
    "freeze": _of_process(_freeze),
    "thaw": _thaw,
    "late": _late,
    "forget scripts": _forget_scripts,
    "hang up": _of_process(Process.hang_up),
    "fail over": World.fail_over,
    "fall far back": _fall_far_back,
    "empty": World.empty,
    "fail over one": _fail_over_one,
    "trouble": _trouble,
    "night": _of_process(janitor.night),
    "reap": janitor.reap,
    "fold": janitor.fold,
    "clean": janitor.clean,
    "keep house": _of_process(janitor.keep_house),
    "lose registries": _lose_registries,
    "lose meta": _lose_meta,
    "delete": _delete,
    "squat": _squat,
    "unsquat": _unsquat,
}
