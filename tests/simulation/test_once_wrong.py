"""Schedules of long runs that went wrong once, made as short as possible: what is so rare is not left to chance."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.plan import Plan
from tests.simulation.steps import run

PLANS = [Plan.from_json(line) for line in Path(__file__).with_name("once_wrong.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: str(plan.seed))
def test_it_keeps_the_promises(plan: Plan) -> None:
    run(plan)
