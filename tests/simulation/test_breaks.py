"""Every rule is needed: with any one of them broken, some schedule breaks a promise."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.simulation.breaks import BREAKS, Break, broken
from tests.simulation.plan import FAULTS, make_plan
from tests.simulation.steps import run

MOST = 6000  # schedules until it must be caught
STUCK = 20  # seconds; a schedule takes some milliseconds


@contextmanager
def no_longer_than(seconds: int) -> Iterator[None]:
    """Raises TimeoutError in a schedule that has no end: that is a promise broken too."""

    def stop(_number: int, _frame: object) -> None:
        raise TimeoutError(f"a schedule took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("what", BREAKS, ids=lambda what: what.name.replace(" ", "-"))
@pytest.mark.timeout(600)
def test_what_is_broken_is_caught(what: Break) -> None:
    """By the first few schedules, mostly."""
    with broken(what) as texts:
        tried = 0
        for seed in range(100 * MOST):
            plan = make_plan(seed)
            if what.fault and what.fault not in plan.faults:
                continue
            tried += 1
            try:
                with no_longer_than(STUCK):
                    run(plan, texts)
            except Exception:  # whatever it is: the schedule does not go as it does with the rule
                break
            assert tried < MOST, f"{what.name}: not caught by {tried} schedules"


def test_breaks_are_one_each() -> None:
    assert len({what.name for what in BREAKS}) == len(BREAKS)
    assert {what.fault for what in BREAKS} <= {"", *FAULTS}


def test_a_mended_rule_is_whole_again() -> None:
    """After all of them, a schedule ends well: what was broken has been put back."""
    for what in BREAKS:
        with broken(what):
            pass
    run(make_plan(5))
