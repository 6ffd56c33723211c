"""Whatever is lost, repeated, delayed, killed, deleted, folded, failed over: what was counted is there, and no more."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.simulation.campaign import run_seeds, shortest
from tests.simulation.plan import FATES, FAULTS, KINDS, Plan, make_plan
from tests.simulation.steps import STEPS, run

BLOCKS = 15
SEEDS = 60  # of a block


@pytest.mark.every(8, "more of the same")
@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_schedule_keeps_the_promises(block: int) -> None:
    """No value is ever too large, and in the end all is there but for what is known to be missing."""
    count = run_seeds(range(block * SEEDS, (block + 1) * SEEDS))
    failed = count.wrong + count.late
    told = [f"seed {seed}: {what}\n{shortest(make_plan(seed)).to_json()}" for seed, what in failed[:1]]
    assert not failed, "\n".join(told)


@pytest.mark.slow("four hundred schedules")
def test_most_schedules_end_with_every_count_and_everything_happens() -> None:
    """Only what ends a process, what deletes, and what is reported excuses that something is missing.

    Each kind of step, each fault, each fate of a command occurs often.
    """
    inexact, reported, seeds = 0, 0, 400
    happened, fates, faults = Counter[str](), Counter[str](), Counter[str]()
    for seed in range(seeds):
        plan = make_plan(seed)
        outcome = run(plan)
        faults.update(plan.faults)
        fates.update("".join(step.text for step in plan.steps if step.what == "round"))
        happened.update(outcome.happened)
        inexact += not outcome.exact
        reported += outcome.uncertain > 0
        excused = ("killed", "closed", "deleted", "other type", "cleaned", "short memory", "expires", "taken away")
        if plan.faults.isdisjoint(excused):
            assert outcome.exact, f"seed {seed}"
        if plan.faults.isdisjoint(("cleaned", "short memory")) and not {"closed", "fail-over"} <= plan.faults:
            assert not outcome.uncertain, f"seed {seed}"
    assert 0 < inexact < seeds * 0.5
    assert 0 < reported < seeds * 0.2
    assert min(happened[what] for what in STEPS) >= 10, happened
    assert min(fates[fate] for fate in FATES) >= 10, fates
    assert min(faults[fault] for fault in FAULTS) >= 10, faults
    assert len(KINDS) > len(STEPS)


def test_a_schedule_is_data() -> None:
    """Written down and read again, it is the same; with steps taken out, it still runs."""
    for seed in range(20):
        plan = make_plan(seed)
        assert Plan.from_json(plan.to_json()) == plan
        run(replace(plan, steps=plan.steps[::3]))
