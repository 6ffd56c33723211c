"""Many schedules, over all cores; of the first that fails, the seed and a shrunk schedule that can be replayed."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.simulation.ledger import TooLate
from tests.simulation.plan import Plan, make_plan
from tests.simulation.shrink import shrink
from tests.simulation.steps import run

__all__ = ["BLOCK", "Count", "Plan", "Wrong", "make_plan", "run_many", "run_seeds", "shortest", "story", "why_wrong"]

BLOCK = 50  # schedules that a worker takes at a time


class Wrong(NamedTuple):
    """A schedule that broke a promise."""

    seed: int
    what: str


@dataclass
class Count:
    """What some schedules came to."""

    schedules: int = 0
    exact: int = 0  # ended with all that was counted, and nothing else
    uncertain: int = 0  # in which a process reported an uncertainty
    steps: int = 0
    reads: int = 0
    wrong: list[Wrong] = field(default_factory=list)
    late: list[Wrong] = field(default_factory=list)  # of the others, in which something came later than promised

    def add(self, other: Count) -> None:
        self.schedules += other.schedules
        self.exact += other.exact
        self.uncertain += other.uncertain
        self.steps += other.steps
        self.reads += other.reads
        self.wrong += other.wrong
        self.late += other.late

    def __str__(self) -> str:
        return (
            f"{self.schedules:,} schedules, {len(self.wrong)} wrong, {len(self.late)} late; "
            f"{self.exact:,} ended with every count there, "
            f"the others with what they may lack; {self.uncertain:,} reported an uncertainty; "
            f"{self.steps:,} steps, {self.reads:,} values read"
        )


def run_seeds(seeds: Iterable[int]) -> Count:
    """Run the schedules of these seeds, one after the other."""
    count = Count()
    for seed in seeds:
        count.schedules += 1
        try:
            outcome = run(make_plan(seed))
        except Exception as error:  # whatever it is, the schedule did not go as it should
            failed = count.late if isinstance(error, TooLate) else count.wrong
            failed.append(Wrong(seed, f"{type(error).__name__}: {error}"))
            continue
        count.exact += outcome.exact
        count.uncertain += bool(outcome.uncertain)
        count.steps += sum(outcome.happened.values())
        count.reads += outcome.reads
    return count


def run_many(
    first: int,
    number: int,
    progress: Callable[[int], None] = lambda _: None,
    run_some: Callable[[Iterable[int]], Count] = run_seeds,
) -> Count:
    """Run that many schedules from a seed on, over all cores. ``progress`` is told how many more are done."""
    total = Count()
    blocks = [range(at, min(at + BLOCK, first + number)) for at in range(first, first + number, BLOCK)]
    # Not forked: what runs here may have threads.
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        for future in as_completed([pool.submit(run_some, block) for block in blocks]):
            count = future.result()
            total.add(count)
            progress(count.schedules)
    return total


def why_wrong(plan: Plan) -> str | None:
    """Return what the schedule breaks, without the figures in it; None if it ends well."""
    try:
        run(plan)
    except Exception as error:
        return type(error).__name__ + "".join(c for c in str(error)[:30] if not c.isdigit())
    return None


def shortest(plan: Plan) -> Plan:
    """Return a shrunk schedule that goes wrong in the same way."""
    what = why_wrong(plan)
    return shrink(plan, lambda shorter: why_wrong(shorter) == what)


def story(plan: Plan) -> Iterator[str]:
    """Yield what happens in a schedule, line by line; how it ends is the last line."""
    lines: list[str] = []
    try:
        outcome = run(plan, tell=lines.append)
    except Exception as error:
        yield from lines
        yield f"{type(error).__name__}: {error}"
    else:
        yield from lines
        yield f"well: {'exact' if outcome.exact else 'with what it may lack'}, {outcome.uncertain} uncertainties"
