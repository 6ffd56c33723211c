"""Every rule is needed: with any one of them broken, some schedule breaks a promise."""

from __future__ import annotations

import importlib
import inspect
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from redis_counters import CounterError
from redis_counters.protocol.wire.commands import Script
from tests.simulation.breaks import BEGIN, BREAKS, Break, broken
from tests.simulation.ledger import Violation
from tests.simulation.plan import FAULTS, Plan, make_plan
from tests.simulation.server import script_texts
from tests.simulation.steps import run

MOST = 6000  # schedules until it must be caught
STUCK = 20  # seconds; a schedule takes some milliseconds
KEPT = {
    json.loads(line)["break"]: Plan.from_json(line)
    for line in Path(__file__).with_name("noticed.jsonl").read_text().splitlines()
}
NOTICED = (AssertionError, CounterError, TimeoutError)  # of which a Violation is one


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


@pytest.mark.every(3, "more of the same")
@pytest.mark.parametrize("what", BREAKS, ids=lambda what: what.name.replace(" ", "-"))
@pytest.mark.timeout(600)
def test_what_is_broken_is_caught(what: Break) -> None:
    """By the first few schedules, mostly, or by one that is kept for it."""
    begin = BEGIN.get(what.name, 0)
    noticed: tuple[type[Exception], ...] = (*NOTICED, *what.crashes)
    if what.name in KEPT:
        with broken(what) as texts, pytest.raises(noticed), no_longer_than(STUCK):
            run(KEPT[what.name], texts)
        return
    with broken(what) as texts:
        tried = 0
        for seed in range(begin, begin + 100 * MOST):
            plan = make_plan(seed)
            if what.fault and what.fault not in plan.faults:
                continue
            tried += 1
            try:
                with no_longer_than(STUCK):
                    run(plan, texts)
            except noticed:  # any other error is one of the break itself, and shows nothing
                break
            assert tried < MOST, f"{what.name}: not caught by {tried} schedules"


@pytest.mark.parametrize("name", KEPT)
def test_a_kept_schedule_is_well_with_the_rule(name: str) -> None:
    """It notices the break, and nothing else."""
    run(KEPT[name])


def test_breaks_are_one_each() -> None:
    """Each has a name of its own, and what is kept for them is for one that there is."""
    assert len({what.name for what in BREAKS}) == len(BREAKS)
    assert {what.fault for what in BREAKS} <= {"", *FAULTS}
    assert BEGIN.keys() | KEPT.keys() <= {what.name for what in BREAKS}
    assert BEGIN.keys().isdisjoint(KEPT)


def test_a_broken_break_is_no_proof() -> None:
    """A replacement that is no sense in itself is told of as that, not taken for a schedule that noticed."""
    senseless = Break("names nothing", "write.actor:Actor.retire", "self.delivered", "self.there_is_no_such_thing")
    with pytest.raises(AttributeError, match="there_is_no_such_thing"):
        test_what_is_broken_is_caught(senseless)


@pytest.mark.parametrize("what", BREAKS, ids=lambda what: what.name.replace(" ", "-"))
def test_a_mended_rule_is_whole_again(what: Break) -> None:
    """While it is broken another object, or text, is in its place; afterwards it is the very same as before."""
    before, texts = _in_place(what), script_texts()
    with broken(what) as given:
        now = _in_place(what)
        assert now is not before if given is None else given != texts
    assert _in_place(what) is before
    assert script_texts() == texts


def test_an_error_mends_too() -> None:
    """Also where the schedule ends by an error, as it should."""
    for what in BREAKS:
        before = _in_place(what)
        with pytest.raises(Violation), broken(what):
            raise Violation
        assert _in_place(what) is before


def _in_place(what: Break) -> object:
    """Return the function, property or text that a break replaces."""
    if ":" not in what.where:
        return script_texts()[Script(what.where)]
    module, path = what.where.split(":")
    owner: object = importlib.import_module(f"redis_counters.protocol.{module}")
    *classes, name = path.split(".")
    for each in classes:
        owner = getattr(owner, each)
    return inspect.getattr_static(owner, name)
