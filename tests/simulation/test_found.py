"""Schedules that went wrong once, out of a hundred thousand: each is kept, and goes wrong again without its rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.breaks import Break, broken
from tests.simulation.ledger import Violation
from tests.simulation.plan import Plan
from tests.simulation.steps import run

FOUND = Path(__file__).parent / "found"
RULES = {
    "refused_without_an_answer": Break(
        "", "history:History.applied_as_of", "if not self[s].answered and any(", "if False and any("
    ),
    "refused_in_a_late_copy": Break(
        "", "history:History.applied_as_of", "if not self[s].answered and any(", "if False and any("
    ),
    "read_while_actors_end": Break("", "reads:Reads.fetch", "if doubts and (", "if doubts and attempts < 1 and ("),
}


def plan(name: str) -> Plan:
    return Plan.from_json((FOUND / f"{name}.json").read_text())


@pytest.mark.parametrize("name", sorted(path.stem for path in FOUND.glob("*.json")))
def test_it_keeps_the_promises(name: str) -> None:
    run(plan(name))


@pytest.mark.parametrize("name", RULES)
def test_it_goes_wrong_without_its_rule(name: str) -> None:
    with broken(RULES[name]) as texts, pytest.raises(Violation):
        run(plan(name), texts)
