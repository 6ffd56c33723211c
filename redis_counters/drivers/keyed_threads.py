"""Keyed calls of many threads in few scripts: one thread sends what has come together, the others wait for it.

Who finds nobody sending becomes the leader, and sends at once. Whoever calls meanwhile waits; when the leader is back,
the first of them leads what has gathered. So nothing is delayed while little goes on, and under load a script carries
many.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from redis_counters.drivers.background import Bell
from redis_counters.drivers.pacing import closed
from redis_counters.errors import CounterError
from redis_counters.protocol.keyed import Keyed
from redis_counters.protocol.keyed_calls import Call
from redis_counters.protocol.keyed_uses import Uses

if TYPE_CHECKING:
    from redis_counters.drivers.threads import ThreadRunner

T = TypeVar("T")

PATIENCE = 1.0  # seconds until who waits looks whether anybody sends
MOST_CALLS = 5_000  # that are sent together: who comes later should not wait for ever more of them


class _Group:
    """The calls of one thread, and what wakes it."""

    __slots__ = ("calls", "finished", "leads", "thread", "woken")

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = calls
        self.thread = threading.current_thread()
        self.woken = Bell()
        self.finished = False
        self.leads = False


class KeyedThreads:
    """Sends keyed calls for the threads of one process.

    A group stays in the queue until its calls have their outcome: whatever interrupts a leader (Ctrl-C, a signal
    handler that raises), the next one finds what was left, and sends it again, which counts nothing twice.
    """

    def __init__(self, runner: ThreadRunner) -> None:
        self.runner = runner
        self.keyed = Keyed(runner.core.reads)
        self.lock = threading.RLock()
        self.queue: deque[_Group] = deque()
        self.leader: threading.Thread | None = None  # sends, or is about to

    def use(self, uses: Uses[T]) -> T:
        """Return what the generator returns; the calls that it yields are done."""
        while True:
            try:
                calls = next(uses)
            except StopIteration as stop:
                result: T = stop.value
                return result
            self.do(calls)

    def do(self, calls: Sequence[Call]) -> None:
        """Every call has an answer or an error. Raises UsageError on a closed client."""
        if self.runner.refusing:
            raise closed()
        group = _Group(calls)
        with self.lock:
            nested = self.leader is group.thread  # an observer or a signal handler, while this very thread leads
            if not nested:
                self.queue.append(group)
                if self.leader is None:
                    self.leader, group.leads = group.thread, True
        if nested:
            self._send([group])
            return
        try:
            while not (group.finished or group.leads):
                group.woken.wait(PATIENCE)
                self._succeed(group)
            if group.leads:
                self._lead()
        finally:
            if not group.finished:  # interrupted
                self._hand_over([group])

    def _lead(self) -> None:
        """What has gathered has its outcome, and the next leader is told."""
        with self.lock:
            taken: list[_Group] = []
            count = 0
            for group in self.queue:
                if group.finished:
                    continue
                count += len(group.calls)
                if taken and count > MOST_CALLS:
                    break
                taken.append(group)
        self._send(taken)
        self._hand_over(taken)

    def _hand_over(self, done: Sequence[_Group]) -> None:
        """These groups wait no more; if one of them had the lead, the first of the others has it."""
        with self.lock:
            leads = any(group.leads for group in done)
            for group in done:
                group.finished = True
                group.woken.ring()
            while self.queue and self.queue[0].finished:
                self.queue.popleft()
            if leads:
                following = next((group for group in self.queue if not group.finished), None)
                self.leader = None if following is None else following.thread
                if following is not None:
                    following.leads = True
                    following.woken.ring()

    def _succeed(self, group: _Group) -> None:
        """The group leads, if who did is gone without a word (C code may end a thread)."""
        with self.lock:
            if not group.finished and self.leader is not None and not self.leader.is_alive():
                self.leader, group.leads = group.thread, True

    def _send(self, groups: Sequence[_Group]) -> None:
        calls = [call for group in groups for call in group.calls]
        failure: Exception
        try:
            self.runner.ask(self.keyed.apply(calls))
            return
        except CounterError as error:
            failure = error
        except Exception as error:  # a fault of ours, or of a client: who waits must be told too
            failure = error
        for call in calls:
            if call.open:
                call.error = failure


def keyed_of(runner: ThreadRunner) -> KeyedThreads:
    """Return what sends keyed calls for this runner; made when first asked for, also in the child of a fork."""
    if runner.keyed is None:
        with runner.lock:
            if runner.keyed is None:
                runner.keyed = KeyedThreads(runner)
    return runner.keyed
