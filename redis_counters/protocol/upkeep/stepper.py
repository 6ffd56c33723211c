"""A generator of steps that a driver takes one at a time, when it has the time."""

from __future__ import annotations

from redis_counters.errors import CounterError
from redis_counters.protocol.upkeep.key_walk import Steps
from redis_counters.protocol.wire.commands import Command


class Stepper:
    """Asks a generator for commands, and hands it the answers."""

    def __init__(self) -> None:
        self._steps: Steps | None = None
        self._answers: list[object] | None = None

    @property
    def begun(self) -> bool:
        return self._steps is not None

    def begin(self, steps: Steps) -> None:
        self._steps = steps

    def commands(self) -> list[Command] | None:
        """Return the next step; None if that was the last, or Redis refuses to go on: then it is over, quietly."""
        steps, answers = self._steps, self._answers
        assert steps is not None
        self._answers = None
        try:
            return next(steps) if answers is None else steps.send(answers)
        except (StopIteration, CounterError):
            self._steps = None
            return None

    def answered(self, answers: list[object]) -> bool:
        """Take the answers in. False if it is over: it was abandoned meanwhile."""
        self._answers = answers if self.begun else None
        return self.begun

    def abandon(self) -> bool:
        """The answers will not come: it is over. False if it was before."""
        steps, self._steps, self._answers = self._steps, None, None
        if steps is not None:
            steps.close()
        return steps is not None
