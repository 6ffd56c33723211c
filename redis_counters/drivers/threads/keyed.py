"""Keyed calls of many threads in few scripts: one thread sends what has come together, the others wait for it.

Who finds nobody sending becomes the leader, and sends at once. Whoever calls meanwhile waits; when the leader is back,
the first of them leads what has gathered. So nothing is delayed while little goes on, and under load a script carries
many.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from redis_counters.drivers.pacing import closed
from redis_counters.drivers.threads.background import Bell
from redis_counters.errors import CounterError
from redis_counters.protocol.keyed import Keyed
from redis_counters.protocol.keyed_calls import Call
from redis_counters.protocol.keyed_uses import Uses

if TYPE_CHECKING:
    from redis_counters.drivers.threads import ThreadRunner

T = TypeVar("T")

PATIENCE = 1.0  # seconds until who waits looks whether anybody sends
MOST_CALLS = 1_000  # that are sent together: who comes later should not wait for ever more of them


class _Group:
    """The calls of one thread, and what wakes it.

    ``over`` is set as the first thing when the thread is through with it, or interrupted, and counts from then on, even
    if another exception keeps it from telling the others.
    """

    __slots__ = ("bell", "calls", "done", "over", "thread")

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = calls
        self.thread = threading.current_thread()
        self.bell = Bell()
        self.done = False
        self.over = False


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
        self.crowd = 0  # how many groups went together last
        self.leader: _Group | None = None  # whose thread sends, unless it is over

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
        try:
            with self.lock:
                leader = self._led_by()
                # An observer or a signal handler, while this very thread sends, would wait for itself.
                nested = leader is not None and leader.thread is group.thread
                if not nested:
                    self.queue.append(group)
            if nested:
                self._send([group])
                return
            while not group.done:
                with self.lock:
                    leads = self._led_by() in (None, group)
                    if leads:
                        self.leader = group
                if leads:
                    self._lead()
                else:
                    group.bell.wait(PATIENCE)
        finally:
            group.over = True
            if self.leader is group:
                self._hand_over(group)

    def _led_by(self) -> _Group | None:
        """Return who sends; nobody, if he was interrupted, or is gone without a word (C code may end a thread)."""
        leader = self.leader
        return None if leader is None or leader.over or not leader.thread.is_alive() else leader

    def _lead(self) -> None:
        """What has gathered has its outcome."""
        waiting = 0
        while waiting < len(self.queue) < self.crowd:  # those who were served with the last are on their way here
            waiting = len(self.queue)
            time.sleep(0)
        with self.lock:
            taken: list[_Group] = []
            count = 0
            for group in self.queue:
                if group.over or group.done:
                    continue
                count += len(group.calls)
                if taken and count > MOST_CALLS:
                    break
                taken.append(group)
        self.crowd = len(taken)
        self._send(taken)
        with self.lock:
            for group in taken:
                group.done = True
                group.bell.ring()

    def _hand_over(self, group: _Group) -> None:
        """The first who waits leads, and is told; unless somebody has found this group over, and leads already."""
        with self.lock:
            if self.leader is not group:
                return
            while self.queue and (self.queue[0].over or self.queue[0].done):
                self.queue.popleft()
            self.leader = self.queue[0] if self.queue else None
            if self.leader is not None:
                self.leader.bell.ring()

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
