"""``python -m tests.simulation``: run many schedules, or look at one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.simulation.campaign import Count, run_many, shortest, story, why_wrong
from tests.simulation.plan import Plan, make_plan

MOST_SHOWN = 5  # failures of which a schedule is printed


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--count", type=int, default=3000, help="how many schedules (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the seed to begin with (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="tell the story of this seed's schedule, shrunk if it goes wrong")
    parser.add_argument("--replay", type=Path, help="tell the story of the schedule in this file")
    told = parser.parse_args(arguments)
    if told.seed is not None:
        return _tell(make_plan(told.seed), shorten=True)
    if told.replay is not None:
        return _tell(Plan.from_json(told.replay.read_text()), shorten=False)
    count = _run(told.first, told.count)
    for seed, what in sorted(count.wrong)[:MOST_SHOWN]:
        print(f"seed {seed}: {what}\n{shortest(make_plan(seed)).to_json()}")
    if count.wrong:
        print(
            f"wrong seeds: {', '.join(str(seed) for seed, _ in sorted(count.wrong))}; --seed N tells the story of one"
        )
    print(count)
    return bool(count.wrong)


def _run(first: int, number: int) -> Count:
    console = Console(stderr=True)
    if not console.is_terminal:
        return run_many(first, number)
    columns = (TextColumn("schedules"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=number)
        return run_many(first, number, lambda done: bar.advance(task, done))


def _tell(plan: Plan, *, shorten: bool) -> int:
    wrong = why_wrong(plan) is not None
    if wrong and shorten:
        plan = shortest(plan)
    print(plan.to_json())
    for line in story(plan):
        print(line)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
