"""Recording of the asyncio driver: one thread of its own touches the disk, so that the loop does not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any, TypeVar

from redis_counters.drivers.tasks.journaling import AwaitedJournaling
from redis_counters.protocol.core import Core

T = TypeVar("T")


class Recording(AwaitedJournaling):
    """The journals of a client for tasks."""

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self.lock = nullcontext()
        self.thread: Executor | None = None

    def begin(self) -> None:
        """In the child of a fork: nothing is recorded, and there is no thread."""
        self.thread = None
        self.order = asyncio.Lock()
        self.journal.begin()

    def in_another_loop(self) -> None:
        """The loop ended, perhaps while something was written."""
        self.order = asyncio.Lock()
        self.journal.unknown()

    async def seek(self) -> None:
        """What killed processes left is sent from the next round on."""
        if self.journal.may_seek:
            async with self.order:
                if self.journal.may_seek:
                    self.journal.sought()  # if this is cancelled, what it found waits for the next process
                    self.journal.adopt(*await self.off(self.journal.seek))

    async def close(self) -> None:
        """Write all that is counted, if it is needed any more; nothing is recorded from now on."""
        self.core.writer.absorb()
        self.journal.try_now()
        kept = await self.own()
        async with self.order:
            self.journal.close()
            self.core.left_in_journal = kept
        if self.thread is not None:
            self.thread.shutdown(wait=False)

    async def off(self, function: Callable[..., T], *arguments: Any) -> T:
        if self.thread is None:
            self.thread = ThreadPoolExecutor(1, "redis-counters-journal")
        try:
            future = asyncio.get_running_loop().run_in_executor(self.thread, function, *arguments)
        except RuntimeError:  # the interpreter is ending, no thread can be started
            return function(*arguments)
        return await future
