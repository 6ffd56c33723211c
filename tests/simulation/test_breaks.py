"""Every rule is needed: with any one of them broken, some schedule breaks a promise."""

from __future__ import annotations

import importlib
import inspect
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from redis_counters import CounterError
from redis_counters.protocol.commands import Script
from tests.simulation.breaks import BEGIN, BREAKS, Break, broken
from tests.simulation.ledger import Violation
from tests.simulation.plan import FAULTS, make_plan
from tests.simulation.server import script_texts
from tests.simulation.steps import run

MOST = 6000  # schedules until it must be caught
STUCK = 20  # seconds; a schedule takes some milliseconds
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


@pytest.mark.parametrize("what", BREAKS, ids=lambda what: what.name.replace(" ", "-"))
@pytest.mark.timeout(600)
def test_what_is_broken_is_caught(what: Break) -> None:
    """By the first few schedules, mostly."""
    begin = BEGIN.get(what.name, 0)
    noticed: tuple[type[Exception], ...] = (*NOTICED, *what.crashes)
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


def test_breaks_are_one_each() -> None:
    assert len({what.name for what in BREAKS}) == len(BREAKS)
    assert {what.fault for what in BREAKS} <= {"", *FAULTS}
    assert BEGIN.keys() <= {what.name for what in BREAKS}


def test_a_broken_break_is_no_proof() -> None:
    """A replacement that is no sense in itself is told of as that, not taken for a schedule that noticed."""
    senseless = Break("names nothing", "actor:Actor.retire", "self.delivered", "self.there_is_no_such_thing")
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
