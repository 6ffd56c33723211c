"""Recording of the asyncio driver: who writes the journal when, and in which order. Of what, the recorder knows.

Changes are written in the order in which they were taken, one after the other, and never in the event loop: the disk
may take long. (A call that is recorded by itself has to be on the disk before it counts.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, TypeVar

from redis_counters.drivers.journal.client import Journal
from redis_counters.protocol.core import Core
from redis_counters.protocol.journal.recorder import Recorder
from redis_counters.protocol.wire.values import Name

T = TypeVar("T")


class Recording:
    """The journals of a client for tasks: one thread of its own touches the disk, so that the loop does not wait."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.journal = Journal(core)
        self.thread: Executor | None = None
        self.order = asyncio.Lock()

    def begin(self) -> None:
        """In the child of a fork: nothing is recorded, and there is no thread."""
        self.thread = None
        self.order = asyncio.Lock()
        self.journal.begin()

    def in_another_loop(self) -> None:
        """The loop ended, perhaps while something was written."""
        self.order = asyncio.Lock()
        self.journal.unknown()

    async def own(self) -> bool:
        """What this client has counted is in its journal. False if it cannot be written at present."""
        recorder = self.core.recorder
        return recorder is not None and await self.record(recorder)

    async def record(self, recorder: Recorder) -> bool:
        """What changed is in the recorder's journal. False if it cannot be written at present."""
        async with self.order:
            writing = self.journal.take(recorder)
            if isinstance(writing, bool):
                return writing
            failure: BaseException | None = None
            try:
                await self._in_thread(self.journal.write, writing)
            except BaseException as error:  # cancelled, too: then nobody knows whether it was written, or will be
                failure = error
            return self.journal.settle(writing, failure)

    def count(self, name: Name, amount: int) -> None:
        """The amount is in the journal, then in the totals; the loop waits for the disk.

        Raises: NotRecorded, Overflow; then it is not counted.
        """
        self.core.check_room(name, amount)
        self.journal.append(name, amount)
        self.core.count(name, amount)

    async def seek(self) -> None:
        """What killed processes left is told from the next round on."""
        if self.journal.may_seek:
            async with self.order:
                if self.journal.may_seek:
                    self.journal.sought()  # if this is cancelled, what it found waits for the next process
                    self.journal.adopt(*await self._in_thread(self.journal.seek))

    async def tidy(self) -> None:
        """Journals of which all is told are gone."""
        if self.core.orphans:
            async with self.order:
                empty = self.journal.over()
                while empty:
                    await self._in_thread(empty[-1].remove)
                    empty.pop()

    async def close(self) -> None:
        """All that is counted is in the journal, if it is needed any more; nothing is recorded from now on."""
        self.core.writer.absorb()
        self.journal.try_now()
        kept = await self.own()
        async with self.order:
            self.journal.close()
            self.core.left_in_journal = kept
        if self.thread is not None:
            self.thread.shutdown(wait=False)

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        if self.thread is None:
            self.thread = ThreadPoolExecutor(1, "redis-counters-journal")
        try:
            future = asyncio.get_running_loop().run_in_executor(self.thread, function, *arguments)
        except RuntimeError:  # the interpreter is ending, no thread can be started
            return function(*arguments)
        return await future
