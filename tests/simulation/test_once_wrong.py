"""Schedules of long runs that went wrong once, made as short as possible: what is so rare is not left to chance."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.breaks import Break, broken
from tests.simulation.ledger import Violation
from tests.simulation.plan import Plan
from tests.simulation.steps import run

PLANS = [*map(Plan.from_json, Path(__file__).with_name("once_wrong.jsonl").read_text().splitlines())]
RULES = (
    (25286, Break("", "write.history:History.applied_as_of", "if not self[s].answered and any(", "if False and any(")),
    (124292, Break("", "write.actor:Actor._acknowledge", "self._keep_applied(self.known_applied)", "pass")),
    (124292, Break("", "write.actor_set:ActorSet.keep_house", "and proved and not actor.state.healing", "and proved")),
    (503015, Break("", "read.fetch:Reads._take", "and not _counted_apart(name, raws, published)", "")),
    (719613, Break("", "journal.recovery:_actor", "journal_behind=head.behind", "journal_behind=False")),
    (9955, Break("", "read.fetch:Reads._ask_registries", "if found >= enough:", "if False:")),
    (174658, Break("", "write.taken_over:rest_of", "(gone or actor.state.journal_behind)", "gone")),
)
"""What mends some of them: without it they go wrong again."""


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: str(plan.seed))
def test_it_keeps_the_promises(plan: Plan) -> None:
    """What mends it holds."""
    run(plan)


@pytest.mark.parametrize(("seed", "rule"), RULES)
def test_it_goes_wrong_without_its_rule(seed: int, rule: Break) -> None:
    """One of the schedules of that seed does."""
    assert any(_goes_wrong(plan, rule) for plan in PLANS if plan.seed == seed)


def _goes_wrong(plan: Plan, rule: Break) -> bool:
    with broken(rule) as texts:
        try:
            run(plan, texts)
        except Violation:
            return True
    return False
