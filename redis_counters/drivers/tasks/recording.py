"""What is written to a journal, awaited, one after the other: in the order in which it was taken from the core.

The core's lock is not held meanwhile: the disk may take long. (A call that is recorded by itself has to be on the disk
before it counts.)
"""

from __future__ import annotations

import asyncio

from redis_counters.drivers.client_state import ClientState
from redis_counters.drivers.tasks.disk import Disk
from redis_counters.errors import UsageError
from redis_counters.protocol.journal.recorder import Recorder
from redis_counters.protocol.wire.values import Name


class Recording:
    """The journals of a client: its own, and those that killed processes left. Raises UsageError: there can be none."""

    def __init__(self, state: ClientState) -> None:
        try:
            from redis_counters.drivers.journal.client import Journal  # with sqlite3, which only journals need
        except ImportError as error:
            raise UsageError(f"journal needs file locks (fcntl) and sqlite3, which are not here: {error}") from error
        self.state = state
        self.journal = Journal(state.core)
        self.order = asyncio.Lock()
        self.disk = Disk()

    def begin_in_child(self) -> None:
        """In the child of a fork: nothing is recorded, and no lock is held."""
        self.order, self.disk = asyncio.Lock(), Disk()
        self.journal.begin()

    def abandon(self) -> None:
        """The thread or loop that wrote, if one did, is no more."""
        self.order = asyncio.Lock()
        with self.state.lock:
            self.journal.unknown()

    async def own(self) -> bool:
        """Write what this client has counted. False if the journal cannot be written at present."""
        recorder = self.state.core.recorder
        return recorder is not None and await self.record(recorder)

    async def record(self, recorder: Recorder) -> bool:
        """Write what changed to the recorder's journal. False if it cannot be written at present."""
        async with self.order:
            with self.state.lock:
                writing = self.journal.take(recorder)
            if isinstance(writing, bool):
                return writing
            failure: BaseException | None = None
            try:
                await self.disk.run(self.journal.write, writing)
            except BaseException as error:  # interrupted, too: then it is unknown whether it was written, or will be
                failure = error
            with self.state.lock:
                return self.journal.written(writing, failure)

    def count(self, name: Name, amount: int) -> None:
        """Write the amount, then count it; the caller waits for the disk.

        Raises: NotRecorded, Overflow; then it is not counted.
        """
        core = self.state.core
        with self.state.lock:
            core.check_room(name, amount)
            self.journal.append(name, amount)
            core.count(name, amount)

    async def seek(self) -> None:
        """What killed processes left is sent from the next round on."""
        if self.journal.may_seek:
            async with self.order:
                if self.journal.may_seek:
                    self.journal.sought()  # if this is interrupted, what it found waits for the next process
                    found, events = await self.disk.run(self.journal.seek)
                    with self.state.lock:
                        self.journal.adopt(found, events)

    async def tidy(self) -> None:
        """Remove journals of which all was sent."""
        if self.state.core.orphans:
            async with self.order:
                with self.state.lock:
                    empty = self.journal.over()
                while empty:
                    await self.disk.run(empty[-1].remove)
                    empty.pop()

    async def close(self) -> None:
        """Write all that is counted, if it is needed any more; nothing is recorded from now on."""
        self.journal.try_now()
        kept = await self.own()
        async with self.order:
            core = self.state.core
            with self.state.lock:
                self.journal.close()
                core.left_in_journal = kept
        self.disk.end()
