"""A failing schedule made shorter: steps are taken out for as long as it fails (Zeller's delta debugging)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.simulation.plan import Plan, Step

Fails = Callable[[Plan], bool]


def shrink(plan: Plan, fails: Fails) -> Plan:
    """Return a schedule that fails too, and no longer does if any one of its steps, processes or fates is taken out.

    Cost: some hundreds of runs.
    """
    before = None
    while plan != before:
        before = plan
        plan = _fewer_steps(plan, fails)
        plan = _fewer_processes(plan, fails)
        plan = _simpler_steps(plan, fails)
    return plan


def _fewer_steps(plan: Plan, fails: Fails) -> Plan:
    size = len(plan.steps)
    while size >= 1:
        at = 0
        while at < len(plan.steps):
            shorter = replace(plan, steps=plan.steps[:at] + plan.steps[at + size :])
            if fails(shorter):
                plan = shorter
            else:
                at += size
        size //= 2
    return plan


def _fewer_processes(plan: Plan, fails: Fails) -> Plan:
    for number in reversed(range(len(plan.processes))):
        processes = plan.processes[:number] + plan.processes[number + 1 :]
        if processes and fails(fewer := replace(plan, processes=processes)):
            plan = fewer
    return plan


def _simpler_steps(plan: Plan, fails: Fails) -> Plan:
    for at in range(len(plan.steps)):
        for simpler in _simpler(plan.steps[at]):
            changed = replace(plan, steps=(*plan.steps[:at], simpler, *plan.steps[at + 1 :]))
            if fails(changed):
                plan = changed
                break
    return plan


def _simpler(step: Step) -> Sequence[Step]:
    """Yield simpler steps, the simplest first."""
    found = []
    if step.text:
        found += [step._replace(text=""), step._replace(text=step.text[:-1])]
        found += [
            step._replace(text=step.text[:i] + "." + step.text[i + 1 :]) for i, c in enumerate(step.text) if c != "."
        ]
    for at, number in enumerate(step.numbers):
        for smaller in (0, 1, number % 2, number % 3, number % 4, number // 2):
            if abs(smaller) < abs(number) and not (smaller == 0 and step.what in ("count", "delete", "fail over")):
                found.append(step._replace(numbers=(*step.numbers[:at], smaller, *step.numbers[at + 1 :])))
    return found
