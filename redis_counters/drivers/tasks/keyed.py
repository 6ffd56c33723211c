"""Keyed calls of many tasks in few scripts: one task sends what has come together, the callers wait for it.

The sender begins in the loop's next turn, so tasks that are ready now share a script; what comes while it waits for
Redis goes with the next. A caller that is cancelled takes nothing from the others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.pacing import closed
from redis_counters.errors import Unavailable
from redis_counters.protocol.keyed.batch import KeyedBatches
from redis_counters.protocol.keyed.calls import Call

if TYPE_CHECKING:
    from redis_counters.drivers.tasks import TaskRunner

MAX_CALLS = 1_000  # that are sent together: a later call should not wait for ever more of them

_Group = tuple[Sequence[Call], "asyncio.Future[None]"]


class KeyedTasks:
    """Sends keyed calls for the tasks of one event loop."""

    def __init__(self, runner: TaskRunner) -> None:
        self.runner = runner
        self.keyed = KeyedBatches(runner.core.reads)
        self.queue: deque[_Group] = deque()
        self.sender: asyncio.Task[None] | None = None

    async def do(self, calls: Sequence[Call]) -> None:
        """Every call has an answer or an error. Raises UsageError on a closed client."""
        if self.runner.state.refusing:
            raise closed()
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        self.queue.append((calls, over))
        if self.sender is None or self.sender.done():
            self.sender = loop.create_task(self._send_all(), name="redis-counters-keyed")
        deadline = Deadline()
        try:
            await asyncio.wait({over}, timeout=deadline.left())
        finally:
            if not over.done():
                over.cancel()  # it is not sent, if it was not yet
        if over.cancelled():
            for call in calls:
                if call.open:
                    call.error = Unavailable(f"Redis is not reachable: {deadline.words}")

    async def _send_all(self) -> None:
        """All that has gathered is sent, and what gathers meanwhile."""
        taken: list[_Group] = []
        try:
            while self.queue:
                taken = self._take()
                await self._send([call for calls, _ in taken for call in calls])
                _wake(taken)
        finally:
            left = [*taken, *self.queue]
            self.queue.clear()
            for calls, _ in left:  # none, unless this task was cancelled
                for call in calls:
                    if call.open:
                        call.error = Unavailable("the task that sends was cancelled")
            _wake(left)

    def _take(self) -> list[_Group]:
        taken: list[_Group] = []
        count = 0
        while self.queue and (not taken or count + len(self.queue[0][0]) <= MAX_CALLS):
            group = self.queue.popleft()
            if not group[1].done():  # else its caller was cancelled before it was sent
                count += len(group[0])
                taken.append(group)
        return taken

    async def _send(self, calls: Sequence[Call]) -> None:
        try:
            await self.runner.ask(self.keyed.apply(calls))
        except Exception as error:  # also a fault of ours, or of a client: callers wait for it
            for call in calls:
                if call.open:
                    call.error = error


def _wake(groups: Sequence[_Group]) -> None:
    for _, over in groups:
        if not over.done():
            over.set_result(None)
