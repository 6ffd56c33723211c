"""An actor's phases and doubts: one table of phase and event. Nothing else changes them.

The page "The life of an actor" is made of this table: ``python -m tests.docs.actor_page`` prints it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from redis_counters.protocol.wire.replies import BadReply


class Phase(Enum):
    """Where an actor is in its life. The value says what it sends there."""

    NEW = "actor_open, when there is something to send"
    REOPEN = "actor_open with its own id"
    ACTIVE = "slots_merge (a flush)"
    CLOSING = "actor_close"
    FOLDING = "slots_fold, in chunks"
    DONE = "nothing; it is dropped"
    MOVED = "nothing; a successor has what did not get across"


class Doubt(Enum):
    """A flag of an actor, by its attribute's name. The value says what it means."""

    probe_due = "an empty flush is wanted, to see whether Redis still has what it acknowledged"
    look_due = "its record is to be read, which costs less than a flush"
    healing = "a fail-over took acknowledged flushes back, and not all of them are acknowledged again"
    requires_exact_base = "the next flush must rest on its base itself: late copies may still move the record on"
    base_inexact = "what Redis held as of its base is not known exactly"
    journal_may_be_stale = "it comes from a journal that may be older than what was sent"
    journal_behind = "that journal is older: what later flushes applied is not known"
    outcome_unknown = "whether all of it is in Redis is not known"


class ActorEvent(Enum):
    """Something that happens to an actor. The value says what."""

    OPENED = "actor_open answers OPEN"
    JOURNAL_LACKS_FLUSHES = "the record has a higher number than a journal that may be stale"
    APPLIED = "a flush is answered OK"
    REGRESSED = "the recorded number is below its base: acknowledged flushes are lost"
    BASE_FORGOTTEN = "what Redis held at the recorded number is not remembered exactly"
    HEALED = "all that was lost is acknowledged again"
    CLOSED_BY_OTHERS = "a flush is answered CLOSED"
    RECORD_LOST = "UNKNOWN: there is no such record"
    RECORD_LOST_IN_FOLD = "UNKNOWN, and a part may be folded: sending it again could count it twice"
    RETIRED = "it is to end, and has nothing to send"
    CLOSED = "actor_close answers OK"
    OPENED_AGAIN = "slots_fold answers OPEN: a late copy, or a fail-over, has opened it"
    FOLDED = "all of its keys are folded"
    TAKEN_OVER = "FOLDED or GONE: others have folded it, or removed its record"
    REVIVED = "it is made again from a journal"
    REVIVED_IN_FOLD = "the same, and a fold of it may have been sent"
    PROBE_WANTED = "what it has acknowledged may be lost"
    PROBE_OVER = "it holds nothing that could be lost"
    LOOK_WANTED = "its turn has come, or a connection is new"
    LOOK_OVER = "its record is being read, or it holds nothing that could be lost"


class Step(NamedTuple):
    """An event's effect: the next phase, and the doubts that are raised and cleared."""

    to: Phase
    raises: tuple[Doubt, ...] = ()
    clears: tuple[Doubt, ...] = ()


_LOST = Step(Phase.ACTIVE, raises=(Doubt.healing, Doubt.requires_exact_base))

TRANSITIONS: dict[tuple[Phase, ActorEvent], Step] = {
    (Phase.NEW, ActorEvent.OPENED): Step(Phase.ACTIVE),
    (Phase.NEW, ActorEvent.RETIRED): Step(Phase.DONE),
    (Phase.NEW, ActorEvent.TAKEN_OVER): Step(Phase.MOVED),
    (Phase.NEW, ActorEvent.REVIVED): Step(Phase.REOPEN),
    (Phase.NEW, ActorEvent.REVIVED_IN_FOLD): Step(Phase.FOLDING),
    (Phase.REOPEN, ActorEvent.OPENED): Step(Phase.ACTIVE),
    (Phase.REOPEN, ActorEvent.TAKEN_OVER): Step(Phase.MOVED),
    (Phase.ACTIVE, ActorEvent.JOURNAL_LACKS_FLUSHES): Step(Phase.ACTIVE, raises=(Doubt.journal_behind,)),
    (Phase.ACTIVE, ActorEvent.APPLIED): Step(
        Phase.ACTIVE, clears=(Doubt.requires_exact_base, Doubt.probe_due, Doubt.look_due)
    ),
    (Phase.ACTIVE, ActorEvent.REGRESSED): _LOST,
    (Phase.ACTIVE, ActorEvent.BASE_FORGOTTEN): Step(Phase.ACTIVE, raises=(Doubt.base_inexact,)),
    (Phase.ACTIVE, ActorEvent.HEALED): Step(Phase.ACTIVE, clears=(Doubt.healing, Doubt.base_inexact)),
    (Phase.ACTIVE, ActorEvent.CLOSED_BY_OTHERS): Step(Phase.REOPEN),
    (Phase.ACTIVE, ActorEvent.RECORD_LOST): Step(Phase.REOPEN),
    (Phase.ACTIVE, ActorEvent.PROBE_WANTED): Step(Phase.ACTIVE, raises=(Doubt.probe_due,)),
    (Phase.ACTIVE, ActorEvent.LOOK_WANTED): Step(Phase.ACTIVE, raises=(Doubt.look_due,)),
    (Phase.ACTIVE, ActorEvent.RETIRED): Step(Phase.CLOSING),
    (Phase.CLOSING, ActorEvent.CLOSED): Step(Phase.FOLDING),
    (Phase.CLOSING, ActorEvent.REGRESSED): _LOST,
    (Phase.CLOSING, ActorEvent.RECORD_LOST): Step(Phase.REOPEN),
    (Phase.CLOSING, ActorEvent.RECORD_LOST_IN_FOLD): Step(Phase.DONE, raises=(Doubt.outcome_unknown,)),
    (Phase.CLOSING, ActorEvent.TAKEN_OVER): Step(Phase.MOVED),
    (Phase.FOLDING, ActorEvent.FOLDED): Step(Phase.DONE),
    (Phase.FOLDING, ActorEvent.OPENED_AGAIN): Step(Phase.REOPEN),
    (Phase.FOLDING, ActorEvent.RECORD_LOST_IN_FOLD): Step(Phase.DONE, raises=(Doubt.outcome_unknown,)),
    **{(phase, ActorEvent.PROBE_OVER): Step(phase, clears=(Doubt.probe_due,)) for phase in Phase},
    **{(phase, ActorEvent.LOOK_OVER): Step(phase, clears=(Doubt.look_due,)) for phase in Phase},
}


@dataclass(slots=True)
class ActorState:
    """The phase of one actor, and its doubts."""

    phase: Phase = Phase.NEW
    probe_due: bool = False
    look_due: bool = False
    healing: bool = False
    requires_exact_base: bool = False
    base_inexact: bool = False
    journal_may_be_stale: bool = False
    journal_behind: bool = False
    outcome_unknown: bool = False

    def on(self, event: ActorEvent) -> None:
        """The event has happened. Raises BadReply if it cannot happen in this phase."""
        step = TRANSITIONS.get((self.phase, event))
        if step is None:
            raise BadReply(f"{event.name} came for an actor that is {self.phase.name}")
        self.phase = step.to
        for doubt in step.raises:
            setattr(self, doubt.name, True)
        for doubt in step.clears:
            setattr(self, doubt.name, False)
