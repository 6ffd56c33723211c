"""Commands that are repeated, each until it has its answer."""

from __future__ import annotations

from collections.abc import Sequence

from redis_counters.errors import CounterError, Unavailable
from redis_counters.protocol.wire.commands import Command, ErrorReply, NoAnswer
from redis_counters.protocol.wire.refusals import error_for


class PartialReplies:
    """Commands that may be repeated; answered ones are not, for a second answer could differ."""

    def __init__(self, commands: Sequence[Command]) -> None:
        self._commands = commands
        self._left = list(range(len(commands)))
        # `NoAnswer` for those that are left, or cannot be asked (a server may refuse the connection); at first empty.
        self.answers: list[object] = []
        self.error: Unavailable | None = None  # of the first that is left

    def left(self) -> list[Command]:
        return [self._commands[n] for n in self._left]

    def take(self, answers: Sequence[object]) -> None:
        """These are the answers to what was left."""
        self.answers = self.answers or [None] * len(self._commands)
        for n, answer in zip(self._left, answers, strict=True):
            error = passing(answer)
            self.answers[n] = answer if error is None else NoAnswer(error)
        lacking = {n: error for n in self._left if isinstance(error := passing(self.answers[n]), Unavailable)}
        self._left = list(lacking)
        self.error = next(iter(lacking.values()), None)

    def check(self) -> None:
        """Raises the error of what is left."""
        if self.error is not None:
            raise self.error


def passing(answer: object) -> CounterError | None:
    """Return why this command has no answer, None if it has; where that is `Unavailable`, it should be asked again."""
    if isinstance(answer, NoAnswer):
        return answer.error
    if isinstance(answer, ErrorReply) and answer.code in ("CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK"):
        return error_for(answer, None)
    return None
