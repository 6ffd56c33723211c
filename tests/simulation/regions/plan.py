"""A schedule as data: made from a seed alone, written down as JSON, replayed, and made shorter."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

from tests.simulation.plan import BUCKETS, Step

NAMES = (b"x", b"y", b"z")
STEPS = 90
SHARDS = (1, 1, 1, 3)

FAULTS = {"durable": 0.75, "resets": 0.6, "compared": 0.6, "evictions": 0.35, "ring": 0.25, "living": 0.5}
"""How a schedule may be, and how likely it is: only durable state leaves a region; counters are reset and deleted; both
sides are compared, else marks alone must do; regions are evicted and return; each asks only the one before it; and the
exchanges of the end are those of before, with all that they know."""

FATES = {
    ".": "it is applied and answered",
    "d": "as `.`, and a copy of it arrives later",
    "r": "its reply is lost",
    "l": "it is lost, and may arrive later",
    "k": "it is lost; behind another loss: the exchange is killed",
    "s": "the exchange waits there, others go on meanwhile",
}
"""What happens to a command of an exchange, by letter."""


@dataclass(frozen=True, slots=True)
class Plan:
    """``regions``: of each, how many shards its clients use."""

    seed: int
    faults: frozenset[str]
    regions: tuple[tuple[int, ...], ...]
    steps: tuple[Step, ...]

    def to_json(self) -> str:
        """Return a text that `from_json` reads; a line a step."""
        head = {"seed": self.seed, "faults": sorted(self.faults), "regions": self.regions}
        lines = ",\n".join("  " + json.dumps([s.what, list(s.numbers), s.text]) for s in self.steps)
        return json.dumps(head)[:-1] + ', "steps": [\n' + lines + "\n]}\n"

    @classmethod
    def from_json(cls, text: str) -> Plan:
        told = json.loads(text)
        return cls(
            told["seed"],
            frozenset(told["faults"]),
            tuple(map(tuple, told["regions"])),
            tuple(Step(what, tuple(numbers), fates) for what, numbers, fates in told["steps"]),
        )


def make_plan(seed: int, steps: int = STEPS) -> Plan:
    """Return the schedule of a seed."""
    rng = random.Random(seed)
    faults = frozenset(fault for fault, likely in FAULTS.items() if rng.random() < likely)
    if "durable" not in faults:  # what nobody can take back must not be lost
        faults -= {"resets", "evictions"}
    count = 3 if "ring" in faults else rng.choice([2, 2, 3])
    regions = tuple(tuple(rng.choice(SHARDS) for _ in range(rng.randint(1, 2))) for _ in range(count))
    made: list[Step] = []
    while len(made) < steps:
        motif = _made_again if {"resets", "compared"} <= faults and rng.random() < 0.4 else _motif
        made += motif(rng, faults, count) if rng.random() < 0.03 else [_step(rng, faults)]
    return Plan(seed, faults, regions, tuple(made))


def _step(rng: random.Random, faults: frozenset[str]) -> Step:
    kinds = {"count": 25, "flush": 15, "pull": 35, "go on": 8, "late": 6, "pass": 8, "kill": 2}
    kinds |= {"fail over": 3, "confirm": 2, "settle": 3}
    if "compared" in faults:
        kinds |= {"compare": 4}
    if "resets" in faults:
        kinds |= {"reset": 4, "delete": 3, "tidy": 6}
        kinds |= {"erase": 8} if "compared" in faults else {}
    if "evictions" in faults:
        kinds |= {"evict": 3, "admit": 4}
    what = rng.choices(list(kinds), list(kinds.values()))[0]
    numbers = [rng.randrange(1000) for _ in range(3)]
    if what == "count":
        numbers.append(rng.choice([1, 1, 2, 5, -1, -3]))
    return Step(what, tuple(numbers), _fates(rng) if what in ("pull", "compare", "go on", "tidy") else "")


def _fates(rng: random.Random) -> str:
    return "".join(rng.choices("....drlks", k=8)) if rng.random() < 0.5 else ""


def _motif(rng: random.Random, faults: frozenset[str], count: int) -> list[Step]:
    """Something in which much can go wrong: what was counted is known to others, reset, dropped, lost, and so on."""
    one = rng.randrange(count)
    other = (one + rng.randint(1, count - 1)) % count
    name, bucket = rng.randrange(len(NAMES)), rng.randrange(BUCKETS)

    def pull(source: int, destination: int, fates: str = "") -> list[Step]:
        step = Step("pull", (source, (destination - source - 1) % count, bucket), fates)
        return [step, step._replace(numbers=(*step.numbers[:2], 1 - bucket), text="")]

    steps = [Step("count", (one, 0, name, rng.randint(1, 5))), Step("flush", (one, 0, 0)), *pull(one, other)]
    if "evictions" in faults and rng.random() < 0.5:
        steps += [*pull(other, one, rng.choice(["", "s", "...s", "..d"])), Step("evict", (one, 0, 0))]
    if "resets" in faults:
        steps += [Step(rng.choice(["reset", "delete"]), (other, name, 0))]
    steps += [*pull(other, one, rng.choice(["", "", "...d", "....s", "...l"])), *pull(other, one), *pull(one, other)]
    if "compared" in faults:
        steps += [Step("compare", (one, (other - one - 1) % count, each), "") for each in range(BUCKETS)]
    steps += [Step("tidy", (one, (other - one - 1) % count, each), "") for each in range(BUCKETS)]
    steps += rng.choice([[], [Step("fail over", (rng.choice([one, other]), rng.randint(0, 5), 0))]])
    steps += rng.choice([[], [Step("late", (rng.randrange(9), 0, 0))] * 2, [Step("go on", (0, 0, 0))] * 2])
    return [*steps, Step("admit", (one, 0, 0)), *pull(one, other)]


def _made_again(rng: random.Random, _faults: frozenset[str], count: int) -> list[Step]:
    """A key that others have is deleted by hand, and made again with others, by one who has not counted in it yet."""
    one = rng.randrange(count)
    apart = rng.randrange(count - 1)
    name, bucket = rng.randrange(len(NAMES)), rng.randrange(BUCKETS)

    def between(what: str, fates: str = "") -> list[Step]:
        return [Step(what, (one, apart, each), fates) for each in (bucket, 1 - bucket)]

    def made(amount: int) -> list[Step]:
        others = [Step("count", (one, 1, each, 1)) for each in range(len(NAMES)) if each != name]
        return [Step("count", (one, 1, name, amount)), *others, Step("flush", (one, 1, 0))]

    erased = [Step("erase", (one, name, shard)) for shard in range(3)]
    steps = [Step("count", (one, 0, name, rng.randint(1, 5))), Step("flush", (one, 0, 0)), *between("pull"), *erased]
    for _ in range(rng.randint(1, 3)):
        meanwhile = rng.choice([[], [], between("pull", "s"), between("compare", ".s"), between("pull", ".s")])
        looks = rng.choice([[], between("compare", rng.choice(["", "...s"])), [Step("reset", (one, name, 0))]])
        again = rng.choice([[], erased])
        steps += [
            *meanwhile,
            *made(rng.randint(1, 9)),
            *looks,
            *again,
            *rng.choice([[], [Step("go on", (0, 0, 0))] * 2]),
        ]
    return [*steps, *between("pull", rng.choice(["", ".d", ".k", "..l"])), *between("compare")]
