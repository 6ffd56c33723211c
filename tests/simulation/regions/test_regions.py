"""Whatever an exchange loses, repeats, is killed at or overtaken by: regions come to the same, to what was counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from redis_counters import CounterError
from tests.simulation.breaks import Break, broken
from tests.simulation.regions.breaks import BEGIN, BREAKS
from tests.simulation.regions.campaign import run_seeds
from tests.simulation.regions.plan import FATES, FAULTS, Plan, make_plan
from tests.simulation.regions.steps import STEPS, run, shorten

BLOCKS = 10
SEEDS = 25  # of a block
MOST = 6000  # schedules until a broken rule must be caught; mostly the first few do


@pytest.mark.every(5, "more of the same")
@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_schedule_comes_to_what_was_counted(block: int) -> None:
    count = run_seeds(range(block * SEEDS, (block + 1) * SEEDS))
    told = [f"seed {seed}: {what}\n{shorten(make_plan(seed)).to_json()}" for seed, what in count.wrong[:1]]
    assert not count.wrong, "\n".join(told)


@pytest.mark.slow("two hundred schedules")
def test_everything_happens() -> None:
    """Each kind of step, each fault, each fate of a command occurs often."""
    happened, fates, faults, steps = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for seed in range(200):
        plan = make_plan(seed)
        faults.update(plan.faults)
        steps.update(step.what for step in plan.steps)
        fates.update("".join(step.text for step in plan.steps))
        happened.update(run(plan).happened)
    assert min(steps[what] for what in STEPS) >= 10, steps
    assert min(fates[fate] for fate in FATES) >= 10, fates
    assert min(faults[fault] for fault in FAULTS) >= 10, faults
    often = {"merge OK", "merge OTHER", "no answer", "late", "fail over", "dropped", "evicted", "returned"}
    assert min(happened[what] for what in often | {"reset", "delete"}) >= 10, happened
    assert happened["erased"] >= 3


def test_a_schedule_is_data() -> None:
    """Written down and read again, it is the same; with steps taken out, it still runs."""
    for seed in range(10):
        plan = make_plan(seed)
        assert Plan.from_json(plan.to_json()) == plan
        run(replace(plan, steps=plan.steps[::3]))


@pytest.mark.every(2, "more of the same")
@pytest.mark.parametrize("what", BREAKS, ids=lambda what: what.name.replace(" ", "-"))
@pytest.mark.timeout(600)
def test_what_is_broken_is_caught(what: Break) -> None:
    begin = BEGIN.get(what.name, 0)
    with broken(what) as texts:
        for seed in range(begin, begin + MOST):
            plan = make_plan(seed)
            if what.fault and what.fault not in plan.faults:
                continue
            try:
                run(plan, texts=texts)
            except (AssertionError, CounterError):  # any other error is one of the break itself, and shows nothing
                return
    pytest.fail(f"{what.name}: not caught by {MOST} schedules")
