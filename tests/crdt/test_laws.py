"""Every type keeps every law; and the harness notices types that do not."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from .broken import BROKEN, INTACT, MERGED_WRONGLY
from .laws import LAWS, AnySpec, Law, check, machine
from .specs import SPECS


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_law_holds(spec: AnySpec, law: Law) -> None:
    """The type keeps the law in schedules with old, repeated and reordered copies."""
    check(spec, law, settings(max_examples=60))


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_replicas_converge_with_messages_of_any_age(spec: AnySpec) -> None:
    """Longer runs: each replica always counts exactly what it heard of, and after an exchange all count everything."""
    run_state_machine_as_test(machine(spec), settings=settings(max_examples=40, stateful_step_count=40, deadline=None))


CONTROL = settings(max_examples=500, derandomize=True, database=None, phases=[Phase.generate])


@pytest.mark.parametrize(("spec", "law"), BROKEN, ids=lambda x: x.__name__ if callable(x) else repr(x))
def test_harness_notices(spec: AnySpec, law: Law) -> None:
    """A type that is broken in one place breaks the law named for it."""
    with pytest.raises(AssertionError):
        check(spec, law, CONTROL)


@pytest.mark.parametrize("spec", MERGED_WRONGLY, ids=repr)
def test_replicas_notice(spec: AnySpec) -> None:
    """The longer runs notice a wrong merge by themselves."""
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine(spec), settings=settings(CONTROL, stateful_step_count=40, deadline=None))


@pytest.mark.parametrize("spec", INTACT, ids=repr)
def test_harness_accepts_what_the_broken_types_share(spec: AnySpec) -> None:
    """What the broken types are made from breaks no law that one of them is to break."""
    for law in {law for _, law in BROKEN}:
        check(spec, law, settings(CONTROL, max_examples=20))
