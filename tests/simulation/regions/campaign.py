"""Many schedules of regions, and the story of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.simulation.campaign import Count, Wrong
from tests.simulation.regions.plan import Plan, make_plan
from tests.simulation.regions.steps import run, shorten, why_wrong

shortest = shorten


def run_seeds(seeds: Iterable[int]) -> Count:
    """Run the schedules of these seeds, one after the other."""
    count = Count()
    for seed in seeds:
        plan = make_plan(seed)
        count.schedules += 1
        count.steps += len(plan.steps)
        wrong = why_wrong(plan)
        if wrong is None:
            count.exact += 1
        else:
            count.wrong.append(Wrong(seed, wrong))
    return count


def story(plan: Plan) -> Iterator[str]:
    """Yield what happens in a schedule, line by line; how it ends is the last line."""
    lines: list[str] = []
    try:
        run(plan, lines.append)
    except Exception as error:
        lines.append(f"{type(error).__name__}: {error}")
    else:
        lines.append("well")
    yield from lines


__all__ = ["Plan", "make_plan", "run_seeds", "shortest", "story", "why_wrong"]
