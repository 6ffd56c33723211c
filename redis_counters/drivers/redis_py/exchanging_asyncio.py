"""Commands sent together over a lane, awaited, and again those whose script Redis does not know."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from redis_counters.protocol.wire.commands import Command, is_unknown_script


class AwaitedExchanging(ABC):
    """A lane that sends and receives."""

    @abstractmethod
    async def send(self, command: Command, text: bool) -> None: ...

    @abstractmethod
    async def receive(self) -> object: ...

    async def exchange(self, commands: Sequence[Command]) -> list[object]:
        """Return the answers to commands, in order; a script that Redis does not know is sent with its text."""
        for command in commands:
            await self.send(command, text=False)
        answers = [await self.receive() for _ in commands]
        for n, answer in enumerate(answers):
            if is_unknown_script(answer):
                await self.send(commands[n], text=True)
                answers[n] = await self.receive()
        return answers
