"""What is written to a journal, awaited, one after the other: in the order in which it was taken from the core.

The core's lock is not held meanwhile: the disk may take long. (A call that is recorded by itself has to be on the disk
before it counts.)
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from redis_counters.drivers.journal.client import Journal
from redis_counters.protocol.core import Core
from redis_counters.protocol.journal.recorder import Recorder
from redis_counters.protocol.wire.values import Name

T = TypeVar("T")


class AwaitedJournaling(ABC):
    """The journals of a client: its own, and those that killed processes left."""

    lock: AbstractContextManager[Any]  # of the core

    def __init__(self, core: Core) -> None:
        self.core = core
        self.journal = Journal(core)
        self.order = asyncio.Lock()

    @abstractmethod
    async def off(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call what touches the disk."""

    async def own(self) -> bool:
        """Write what this client has counted. False if the journal cannot be written at present."""
        recorder = self.core.recorder
        return recorder is not None and await self.record(recorder)

    async def record(self, recorder: Recorder) -> bool:
        """Write what changed to the recorder's journal. False if it cannot be written at present."""
        async with self.order:
            with self.lock:
                writing = self.journal.take(recorder)
            if isinstance(writing, bool):
                return writing
            failure: BaseException | None = None
            try:
                await self.off(self.journal.write, writing)
            except BaseException as error:  # interrupted, too: then it is unknown whether it was written, or will be
                failure = error
            with self.lock:
                return self.journal.settle(writing, failure)

    def count(self, name: Name, amount: int) -> None:
        """Write the amount, then count it; the caller waits for the disk.

        Raises: NotRecorded, Overflow; then it is not counted.
        """
        with self.lock:
            self.core.check_room(name, amount)
            self.journal.append(name, amount)
            self.core.count(name, amount)

    async def tidy(self) -> None:
        """Remove journals of which all was sent."""
        if self.core.orphans:
            async with self.order:
                with self.lock:
                    empty = self.journal.over()
                while empty:
                    await self.off(empty[-1].remove)
                    empty.pop()
