"""The page on an actor's life is made of the table that actors live by."""

from __future__ import annotations

from dataclasses import fields

import pytest

from redis_counters.protocol.wire.replies import BadReply
from redis_counters.protocol.write.states import TRANSITIONS, ActorEvent, ActorState, Doubt, Phase
from tests.docs.actor_page import diagram, tables
from tests.docs.pages import ROOT


@pytest.mark.parametrize("part", [diagram(), tables()], ids=["diagram", "tables"])
def test_the_page_says_what_the_table_says(part: str) -> None:
    """``python -m tests.docs.actor_page`` prints what has to stand there."""
    assert part in (ROOT / "docs" / "explanation" / "actors.md").read_text()


def test_every_phase_is_reached_and_every_event_used() -> None:
    assert {Phase.NEW} | {step.to for step in TRANSITIONS.values()} == set(Phase)
    assert {event for _, event in TRANSITIONS} == set(ActorEvent)
    raised = {doubt for step in TRANSITIONS.values() for doubt in step.raises}
    assert raised == set(Doubt) - {Doubt.journal_may_be_stale}
    assert [field.name for field in fields(ActorState)] == ["phase", *(doubt.name for doubt in Doubt)]


@pytest.mark.parametrize("phase", Phase)
def test_an_event_out_of_place_changes_nothing(phase: Phase) -> None:
    """It is an answer that does not fit."""
    for event in ActorEvent:
        state = ActorState(phase, healing=True)
        if (phase, event) not in TRANSITIONS:
            with pytest.raises(BadReply, match=f"{event.name} came for an actor that is {phase.name}"):
                state.on(event)
            assert state == ActorState(phase, healing=True)
