"""``python -m tests.simulation``: run many schedules, or look at one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.simulation import campaign
from tests.simulation.campaign import Count, run_many
from tests.simulation.regions import campaign as campaign_of_regions

MOST_SHOWN = 5  # failures of which a schedule is printed


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--count", type=int, default=3000, help="how many schedules (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the seed to begin with (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="tell the story of this seed's schedule, shrunk if it goes wrong")
    parser.add_argument("--replay", type=Path, help="tell the story of the schedule in this file")
    parser.add_argument("--regions", action="store_true", help="schedules of the exchange between regions")
    told = parser.parse_args(arguments)
    kind: Any = campaign_of_regions if told.regions else campaign
    if told.seed is not None:
        return _tell(kind, kind.make_plan(told.seed), shorten=True)
    if told.replay is not None:
        return _tell(kind, kind.Plan.from_json(told.replay.read_text()), shorten=False)
    count = _run(kind, told.first, told.count)
    failed = {"wrong": sorted(count.wrong), "late": sorted(count.late)}
    for seed, what in (failed["wrong"] + failed["late"])[:MOST_SHOWN]:
        print(f"seed {seed}: {what}\n{kind.shortest(kind.make_plan(seed)).to_json()}")
    for kind_of_failure, some in failed.items():
        if some:
            print(f"{kind_of_failure} seeds: {', '.join(str(seed) for seed, _ in some)}; --seed N tells of one")
    print(count)
    return bool(count.wrong or count.late)


def _run(kind: Any, first: int, number: int) -> Count:
    console = Console(stderr=True)
    if not console.is_terminal:
        return run_many(first, number, run_some=kind.run_seeds)
    columns = (TextColumn("schedules"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=number)
        return run_many(first, number, lambda done: bar.advance(task, done), kind.run_seeds)


def _tell(kind: Any, plan: Any, *, shorten: bool) -> int:
    wrong = kind.why_wrong(plan) is not None
    if wrong and shorten:
        plan = kind.shortest(plan)
    print(plan.to_json())
    for line in kind.story(plan):
        print(line)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
