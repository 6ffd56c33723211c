"""A schedule as data: made from a seed alone, written down as JSON, replayed, and made shorter.

Steps name things by number, and a number means one of what is there at that time (modulo). So a step means something
after any other step has been removed; where it finds nothing to do, it does nothing.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

NAMES = (b"x", b"y", b"z")
GROWING = (b"x", b"y")  # only incremented, in every schedule: their values may not run backwards
EXPIRING = b"z"  # expires, in schedules with that fault,
EXPIRES = (50, 150, 400)  # so many seconds after the beginning
BUCKETS, MOST_BUCKETS = 2, 3
MOST_SHARDS = 4
WINDOW = 20.0  # seconds: the re-assert window; no fail-over takes back what is older
LATEST = 4 * WINDOW  # no command arrives later than that
RETENTION = 120  # seconds: how long the record of a folded actor is kept
STEPS = 110
ALWAYS = 2  # the option journal: each increment is recorded by itself

FAULTS = {
    "fail-over": 0.5,
    "registry lost": 0.1,
    "deleted": 0.2,
    "other type": 0.1,
    "killed": 0.35,
    "forked": 0.2,
    "closed": 0.35,
    "cleaned": 0.25,
    "short memory": 0.1,
    "expires": 0.15,
    "narrowed": 0.25,
    "taken away": 0.25,
    "emptied": 0.15,
}
"""What a schedule may contain besides the network's faults, and how likely it does."""

FATES = {
    ".": "it is applied and answered",
    "d": "as `.`, and a copy of it arrives later",
    "r": "its reply is lost: the connection breaks after it was applied",
    "l": "it is lost: the connection breaks before it was applied",
    "w": "the connection breaks, and the command waits somewhere: it may arrive later",
    "R": "as `r`, but only one server of a cluster breaks off: the round goes on with the others",
    "L": "as `l`, but only one server of a cluster breaks off",
    "W": "as `w`, but only one server of a cluster breaks off",
    "e": "Redis answers with an error and applies nothing (BUSY, OOM, READONLY)",
    "g": "it is applied, and what comes back is garbage",
    "s": "the process sends it, and does nothing more for now",
}
"""What happens to a command, by letter."""


FORMS = ("kept", "broken", "redialled", "redirected")
"""What clients see of it when what is behind a name changes: nothing, for a proxy keeps their connections; an error in
the round that is under way, or the next; the next command goes over a new connection, without a word; commands are
followed to another server."""

NO_ENDS = ("registry lost", "emptied")
"""With these no actor may be closed or folded: what is lost would tell of it. See docs/design.md, "Limits"."""


class Step(NamedTuple):
    what: str
    numbers: tuple[int, ...] = ()
    text: str = ""


class Options(NamedTuple):
    """Of one process."""

    shards: int
    max_batch: int
    rotate_slots: int
    max_age: int
    actor_ttl: int
    retention: int
    journal: int  # 0 none, 1 interval, 2 always


@dataclass(frozen=True, slots=True)
class Plan:
    """A schedule. ``seed`` also makes the tokens that processes draw, and the order in which all is healed."""

    seed: int
    faults: frozenset[str]
    processes: tuple[Options, ...]
    steps: tuple[Step, ...]
    buckets: int = BUCKETS  # with two, shards 0 of all counters are in one of them; with three, each in its own

    def to_json(self) -> str:
        """Return a text that `from_json` reads; a line a step."""
        head = {
            "seed": self.seed,
            "faults": sorted(self.faults),
            "processes": self.processes,
            "buckets": self.buckets,
        }
        lines = ",\n".join("  " + json.dumps([s.what, list(s.numbers), s.text]) for s in self.steps)
        return json.dumps(head)[:-1] + ', "steps": [\n' + lines + "\n]}\n"

    @classmethod
    def from_json(cls, text: str) -> Plan:
        told = json.loads(text)
        return cls(
            told["seed"],
            frozenset(told["faults"]),
            tuple(Options(*options) for options in told["processes"]),
            tuple(Step(what, tuple(numbers), fates) for what, numbers, fates in told["steps"]),
            told.get("buckets", BUCKETS),
        )


def make_plan(seed: int, steps: int = STEPS) -> Plan:
    """Return the schedule of a seed."""
    rng = random.Random(seed)
    faults = frozenset(fault for fault, likely in FAULTS.items() if rng.random() < likely)
    if "narrowed" in faults:  # what takes away a shard, or shard 0 alone, takes away what was moved to it
        faults -= {"registry lost", "deleted", "other type", "expires", "taken away", "emptied"}
    if "emptied" in faults:  # what was closed in order, or told by another, is lost then
        faults -= {"closed", "cleaned"}
    may_end = faults.isdisjoint(NO_ENDS)
    processes = tuple(
        Options(
            shards=rng.choice([1, 1, 2, MOST_SHARDS]),
            max_batch=rng.choice([1, 2, 9]),
            # What a lost registry knew of folded actors is known by nobody: docs/design.md, "Limits".
            rotate_slots=rng.choice([1, 2, 100]) if may_end else 100,
            max_age=rng.choice([0, 1, 10]),
            actor_ttl=rng.choice([8, 30, 3600]) if may_end else 3600,
            retention=RETENTION if "cleaned" in faults else 10**6,
            # Whoever tells a journal ends its actors, too: another that the registry alone would know to be folded.
            journal=rng.choice([0, 1, 1, 2]) if "killed" in faults and may_end else 0,
        )
        for _ in range(rng.randint(1, 3))
    )
    kinds = [kind for kind in KINDS if _fits(kind, faults)]
    chosen = rng.choices(kinds, [kind.weight for kind in kinds], k=steps)
    taken: list[Step] = []
    for kind in chosen:
        taken.append(kind.make(rng))
        if rng.random() < 0.03:
            taken += rng.choice(MOTIFS)(rng, faults)
    taken += rng.choice([_quiet, _last_loss, lambda *_: []])(rng, faults)
    return Plan(seed, faults, processes, tuple(taken), rng.choice([BUCKETS, MOST_BUCKETS]))


class Kind(NamedTuple):
    """A kind of step: how often, how it is made, which fault it belongs to, and with which it must not occur."""

    weight: int
    make: Callable[[random.Random], Step]
    fault: str = ""
    never_with: tuple[str, ...] = ()


def _fits(kind: Kind, faults: frozenset[str]) -> bool:
    return (not kind.fault or kind.fault in faults) and faults.isdisjoint(kind.never_with)


def _any(rng: random.Random) -> int:
    return rng.randrange(1000)


def _pass(rng: random.Random) -> Step:
    return Step("pass", (rng.choice([100, 100, 100, 1000, 1000, 7000, 7000, 12_000, 25_000, 60_000]),))


def _count(rng: random.Random) -> Step:
    amount = 1 if rng.random() < 0.5 else rng.choice([1, 2, 3, 4, 5, 90, 2**53 + 1])
    return Step("count", (_any(rng), rng.randrange(len(NAMES)), -amount if rng.random() < 0.25 else amount))


def _round(rng: random.Random) -> Step:
    if rng.random() < 0.5:
        return Step("round", (_any(rng),))
    return Step(
        "round",
        (_any(rng),),
        "".join(rng.choices(".drlwegsRLW", [30, 12, 10, 6, 10, 3, 2, 14, 4, 2, 4], k=rng.randint(1, 4))),
    )


def _read(rng: random.Random) -> Step:
    return Step("read", (_any(rng), rng.randint(1, 7)), rng.choice(["", "", "h", "a", "a", "q", "l"]))


def _mask(what: str, bits: int) -> Callable[[random.Random], Step]:
    return lambda rng: Step(what, (_any(rng), rng.randint(1, 2**bits - 1)))


def _one(what: str) -> Callable[[random.Random], Step]:
    return lambda rng: Step(what, (_any(rng),))


def _overtaken(rng: random.Random, faults: frozenset[str]) -> list[Step]:
    """An actor is closed, perhaps folded, while a flush of its owner waits somewhere, and copies of what follows."""
    who = _any(rng)
    steps = [
        Step("count", (who, rng.randrange(len(NAMES)), rng.randint(1, 5))),
        Step("round", (who,)),
        Step("count", (who, rng.randrange(len(NAMES)), 1)),
        *([Step("reap", (_any(rng),))] if faults.isdisjoint(NO_ENDS) else []),
        Step("pass", (rng.choice([0, 1000, 35_000, 42_000]),)),
        Step("round", (who,), rng.choice(["w", "w", "r", "s"])),
        Step("pass", (rng.choice([0, 1000, 6000]),)),
    ]
    if faults.isdisjoint(NO_ENDS):
        steps.append(rng.choice([Step("fold", (_any(rng), 15)), Step("night", (_any(rng), 1))]))
    steps.append(Step("round", (who,), rng.choice(["", ".d", "dd", "dddd"])))
    return [*steps, *_taken_back(rng, faults), Step("round", (who,)), Step("read", (who, 7))]


def _taken_back(rng: random.Random, faults: frozenset[str]) -> list[Step]:
    """Some commands are taken back by a fail-over, and copies of them arrive."""
    steps = [Step("fail over", (rng.randint(1, 5), _form(rng)))] if "fail-over" in faults else []
    return steps + [Step("late", (_any(rng),))] * rng.randint(0, 3)


def _half_told(rng: random.Random, faults: frozenset[str]) -> list[Step]:
    """A process with several chunks to tell is stopped as it tells all again, and its actor folded."""
    who = _any(rng)
    steps = [Step("count", (who, name, rng.randint(1, 9))) for name in (0, 1, 2, rng.randrange(3))]
    steps += [Step("round", (who,), "".join(rng.choices(".dddr", k=4))), Step("count", (who, rng.randrange(3), 1))]
    steps += [*_taken_back(rng, faults), Step("round", (who,), rng.choice(["s", ".s", "..s"]))]
    steps += [Step("late", (_any(rng),)), Step("round", (who,), rng.choice(["r", ".r", "..r", "s", "..s"]))]
    if faults.isdisjoint(NO_ENDS):
        steps += [Step("reap", (_any(rng),)), Step("reap", (_any(rng),)), Step("pass", (rng.choice([100, 45_000]),))]
        steps += [Step("fold", (_any(rng), 15)), Step("fold", (_any(rng), 15))]
    return [*steps, Step("late", (_any(rng),)), Step("round", (who,)), Step("read", (who, 7), "")]


def _flushed(rng: random.Random, _faults: frozenset[str]) -> list[Step]:
    """Somebody waits for a flush, across a rotation, while more is counted."""
    who, name = _any(rng), rng.randrange(len(NAMES))
    steps = [Step("count", (who, rng.randrange(len(NAMES)), 1)), Step("round", (who,)), Step("pass", (37_500,))]
    steps += [Step("read", (who, 7)), Step("count", (who, name, 2)), Step("flush", (who,)), Step("round", (who,))]
    steps += [Step("count", (who, name, 1)), Step("pass", (rng.choice([100, 1000]),)), Step("round", (who,))]
    return [*steps, Step("read", (who, 7), "a"), Step("read", (who, 7))]


def _widened_again(rng: random.Random, faults: frozenset[str]) -> list[Step]:
    """A counter gets fewer shards while somebody sleeps who still knows of more; then he counts there."""
    if "narrowed" not in faults:
        return []
    who, name, number = _any(rng), rng.randrange(len(NAMES)), _any(rng)
    steps = [Step("declare", (who, name, rng.choice([2, MOST_SHARDS])))] if rng.random() < 0.5 else []
    steps += [Step("count", (who, name, rng.randint(1, 5))), Step("round", (who,)), Step("round", (who,))]
    if rng.random() < 0.5:
        steps += [Step("grow", (who, name, MOST_SHARDS)), Step("count", (who, name, 3)), Step("round", (who,))]
    steps += [Step("round", (who,)), *[Step("reap", (_any(rng),)) for _ in range(3)]]
    steps += [Step("pass", (rng.choice([100, 60_000]),)), Step("narrow", (name, rng.randint(1, 2)))]
    for _ in range(rng.randint(2, 4)):
        steps += [Step("narrow on", (number, rng.choice([1, 2, 3, 4, 5, 9, 9])))] * rng.randint(1, 3)
        lost = Step("fail over one", (rng.randrange(6), rng.randint(1, 3), _form(rng)))
        steps += rng.choice([[], [Step("narrow late", (number,))], [lost], _taken_back(rng, faults)])
        if rng.random() < 0.3:
            steps += [Step(rng.choice(["declare", "grow"]), (_any(rng), name, MOST_SHARDS))]
        steps += [Step("pass", (rng.choice([100, 12_000, 60_000]),)), Step("count", (who, name, 1))]
        steps += [Step("round", (who,), rng.choice(["", "", "..d", "w", "s", "r", "ddd"]))] * rng.randint(0, 2)
        steps += [Step("read", (_any(rng), 7))]
    return steps


def _nearly_forgotten(rng: random.Random, faults: frozenset[str]) -> list[Step]:
    """Records are to be forgotten after a walk, and one is as old whose actor was not folded."""
    if "cleaned" not in faults or not faults.isdisjoint(NO_ENDS):
        return []
    steps = [Step("count", (_any(rng), rng.randrange(len(NAMES)), 1)), Step("round", (_any(rng),))] * 2
    steps += [Step("reap", (_any(rng),)), Step("reap", (_any(rng),)), Step("fold", (_any(rng), rng.choice([0, 1, 15])))]
    steps += [Step("pass", (12_000,)), Step("keep house", (_any(rng), rng.choice([12, 100])))]
    steps += [Step("pass", (rng.choice([25_000, 60_000]),)), Step("pass", (60_000,)), Step("pass", (25_000,))]
    return [*steps, Step("clean", (_any(rng),)), Step("clean", (_any(rng),))]


def _taken_from_all(rng: random.Random, faults: frozenset[str]) -> list[Step]:
    """A counter in several shards is reset, or deleted, with flushes on their way, and again when more was counted."""
    if "taken away" not in faults:
        return []
    name, steps = rng.randrange(len(NAMES)), [Step("grow", (_any(rng), rng.randrange(len(NAMES)), MOST_SHARDS))]
    for _ in range(rng.randint(1, 2)):
        for who in (_any(rng), _any(rng)):
            steps += [Step("declare", (who, name, MOST_SHARDS))] if rng.random() < 0.5 else []
            steps += [
                Step("count", (who, name, rng.randint(1, 9))),
                Step("round", (who,), rng.choice(["", "", "r", "s"])),
            ]
            steps += [
                Step("count", (who, name, rng.choice([1, -3]))),
                Step("round", (who,), rng.choice(["", "d", "w"])),
            ]
        steps += [Step("take away", (_any(rng), name, rng.randint(0, 1)))] * rng.randint(1, 2)
        for _ in range(rng.randint(2, 4)):
            steps += [Step("take on", (_any(rng), rng.choice([1, 2, 3, 9])))]
            steps += rng.choice([[], [], [Step("take late", (_any(rng),))], [Step("late", (_any(rng),))]])
        steps += [Step("take on", (0, 9))] * 3 + _taken_back(rng, faults) + [Step("read", (_any(rng), 7))]
    return steps


def _quiet(rng: random.Random, faults: frozenset[str]) -> list[Step]:
    """A process is silent for long, or only reads, or counts something else, before and after something is lost."""
    who, name = _any(rng), rng.randrange(len(NAMES))
    other = (name + rng.randint(1, len(NAMES) - 1)) % len(NAMES)
    pauses = [0, 3000, 12_000, 25_000, 60_000]
    steps = [Step("count", (who, name, rng.randint(1, 9))), Step("live", (1000,))]
    steps += [Step("count", (who, other, 1)), Step("live", (1000,))] if rng.random() < 0.5 else []
    steps += [Step("live", (rng.choice(pauses),)), Step("count", (who, name, 1)), Step("live", (1000,))]
    steps += [Step("live", (rng.choice(pauses),))]
    steps += _loss(rng, faults)
    since = [Step("count", (who, other, 1)), Step("read", (who, 7)), Step("read", (who, 7)), Step("round", (who,))]
    for _ in range(rng.randint(0, 4)):
        steps += [rng.choice(since), Step("live", (rng.choice([250, 1000]),))]
    return [*steps, Step("live", (rng.choice(pauses),))]


def _last_loss(rng: random.Random, faults: frozenset[str]) -> list[Step]:
    """All that was counted, by several, is acknowledged; then it is lost, and nothing else happens."""
    steps = [Step("count", (_any(rng), name, rng.randint(1, 5))) for name in (0, 1, 2, 0, 1, 2)]
    steps += [Step("live", (rng.choice([1000, 1000, 7000]),))] * 2
    steps += [Step("live", (rng.choice([25_000, 60_000]),))] if "emptied" in faults and rng.random() < 0.5 else []
    steps += [Step("hang up", (_any(rng),))] if rng.random() < 0.3 else []
    return steps + _loss(rng, faults) + [Step("live", (500,))] * rng.randint(0, 1)


def _loss(rng: random.Random, faults: frozenset[str]) -> list[Step]:
    """Return a step that takes something back, of those that may occur."""
    lost = [Step("fail over", (rng.randint(1, 6), _form(rng))), _fail_over_one(rng)] if "fail-over" in faults else []
    lost += [_empty(rng), _far_back(rng), _far_back(rng)] if "emptied" in faults else []
    return [rng.choice(lost)] if lost else []


def _form(rng: random.Random) -> int:
    return rng.randrange(len(FORMS))


def _empty(rng: random.Random) -> Step:
    return Step("empty", (_form(rng),))


def _far_back(rng: random.Random) -> Step:
    bucket = rng.choice([0, rng.randint(1, 6)])
    return Step("fall far back", (rng.choice([1, 2, 3, 9, 99]), _form(rng), bucket))


def _fail_over_one(rng: random.Random) -> Step:
    return Step("fail over one", (rng.randrange(6), rng.randint(1, 6), _form(rng)))


def _live(rng: random.Random) -> Step:
    return Step("live", (rng.choice([250, 1000, 1000, 7000, 25_000, 60_000]),))


MOTIFS = (_overtaken, _half_told, _flushed, _widened_again, _nearly_forgotten, _taken_from_all, _quiet)
"""Sequences in which much can go wrong, put in between here and there."""

KINDS = (
    Kind(28, _pass),
    Kind(2, _live),
    Kind(1, lambda rng: Step("night", (_any(rng), rng.randint(1, 4))), never_with=NO_ENDS),
    Kind(2, lambda rng: Step("night", (_any(rng), rng.randint(3, 7))), "cleaned", NO_ENDS),
    Kind(30, _count),
    Kind(40, _round),
    Kind(10, _read),
    Kind(3, lambda rng: Step("read on", (_any(rng), _any(rng)))),
    Kind(3, lambda rng: Step("serve", (_any(rng), rng.randint(1, 3)))),
    Kind(8, _one("late")),
    Kind(2, _one("absorb")),
    Kind(2, _one("flush")),
    Kind(1, lambda rng: Step("declare", (_any(rng), rng.randrange(len(NAMES)), rng.randint(2, MOST_SHARDS)))),
    Kind(2, lambda rng: Step("grow", (_any(rng), rng.randrange(len(NAMES)), rng.randint(2, MOST_SHARDS)))),
    Kind(5, lambda rng: Step("narrow", (rng.randrange(len(NAMES)), rng.randint(1, MOST_SHARDS - 1))), "narrowed"),
    Kind(30, lambda rng: Step("narrow on", (_any(rng), rng.randint(1, 9))), "narrowed"),
    Kind(3, _one("narrow late"), "narrowed"),
    Kind(2, _one("stop narrowing"), "narrowed"),
    Kind(2, _fail_over_one, "narrowed"),
    Kind(1, _fail_over_one, "fail-over"),
    Kind(2, lambda _rng: Step("forget scripts")),
    Kind(3, _one("freeze")),
    Kind(2, lambda _rng: Step("thaw")),
    Kind(1, lambda rng: Step("trouble", (rng.choice([500, 5000]),))),
    Kind(3, _one("hang up")),
    Kind(3, _one("reap"), never_with=NO_ENDS),
    Kind(4, _mask("fold", 4), never_with=NO_ENDS),
    Kind(8, lambda rng: Step("keep house", (_any(rng), rng.choice([1, 3, 100]))), never_with=NO_ENDS),
    Kind(2, _one("clean"), "cleaned"),
    Kind(4, lambda rng: Step("fail over", (rng.randint(1, 6), _form(rng))), "fail-over"),
    Kind(2, _empty, "emptied"),
    Kind(3, _far_back, "emptied"),
    Kind(1, lambda rng: Step("lose registries", (rng.randint(1, 2**MOST_BUCKETS - 1),)), "registry lost"),
    Kind(1, lambda _rng: Step("lose meta"), "registry lost"),
    Kind(3, lambda rng: Step("delete", (rng.randrange(len(NAMES)), rng.choice([15, 15, 1, 2, 3, 4]))), "deleted"),
    Kind(2, lambda rng: Step("squat", (rng.randrange(len(NAMES)), rng.randrange(2))), "other type"),
    Kind(2, lambda _rng: Step("unsquat"), "other type"),
    Kind(4, lambda rng: Step("take away", (_any(rng), rng.randrange(len(NAMES)), rng.randint(0, 1))), "taken away"),
    Kind(20, lambda rng: Step("take on", (_any(rng), rng.choice([1, 2, 3, 9]))), "taken away"),
    Kind(3, _one("take late"), "taken away"),
    Kind(2, _one("stop taking"), "taken away"),
    Kind(2, _one("kill"), "killed"),
    Kind(1, _one("journal fails"), "killed"),
    Kind(2, _one("fork"), "forked"),
    Kind(2, _one("close"), "closed", NO_ENDS),
    Kind(3, _one("start")),
)
