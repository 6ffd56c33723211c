# Generated from redis_counters/drivers/redis_py/exchanging_asyncio.py by `make blocking`: change that.
"""Commands sent together over a lane, and again those whose script Redis does not know."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from redis_counters.protocol.wire.commands import Command, is_unknown_script


class Exchanging(ABC):
    """A lane that sends and receives."""

    @abstractmethod
    def send(self, command: Command, text: bool) -> None: ...

    @abstractmethod
    def receive(self) -> object: ...

    def exchange(self, commands: Sequence[Command]) -> list[object]:
        """Return the answers to commands, in order; a script that Redis does not know is sent with its text."""
        for command in commands:
            self.send(command, text=False)
        answers = [self.receive() for _ in commands]
        for n, answer in enumerate(answers):
            if is_unknown_script(answer):
                self.send(commands[n], text=True)
                answers[n] = self.receive()
        return answers
