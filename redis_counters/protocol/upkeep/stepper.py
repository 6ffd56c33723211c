"""A generator of steps that a driver takes one at a time, when it has the time."""

from __future__ import annotations

from redis_counters.errors import CounterError
from redis_counters.protocol.upkeep.key_walk import Steps
from redis_counters.protocol.wire.commands import Command


class Stepper:
    """Asks a generator for commands, and hands it the answers."""

    def __init__(self) -> None:
        self.steps: Steps | None = None  # None: it is over, or not begun
        self._answers: list[object] | None = None

    def commands(self) -> list[Command] | None:
        """Return the next step; None if that was the last, or Redis refuses to go on: then it is over, quietly."""
        steps, answers = self.steps, self._answers
        assert steps is not None
        self._answers = None
        try:
            return next(steps) if answers is None else steps.send(answers)
        except (StopIteration, CounterError):
            self.steps = None
            return None

    def answered(self, answers: list[object]) -> bool:
        """Take the answers in. False if it is over: it was abandoned meanwhile."""
        begun = self.steps is not None
        self._answers = answers if begun else None
        return begun

    def abandon(self) -> bool:
        """The answers will not come: it is over. False if it was before."""
        steps, self.steps, self._answers = self.steps, None, None
        if steps is not None:
            steps.close()
        return steps is not None
