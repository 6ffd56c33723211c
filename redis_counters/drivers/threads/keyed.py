"""Keyed calls of many threads in few scripts: one thread sends what has come together, the others wait for it.

A thread that finds none sending becomes the leader, and sends at once. Others wait; when the leader is back, the first
of them leads what has gathered. So nothing is delayed while little goes on, and under load a script carries many.

Threads whose calls were sent are woken one by one, each by the one before: all at once would fight for the
interpreter's lock, which takes longer than what they do with it. The last of them wakes the next leader: most have
called again by then, and a leader that is awake before would be one more to fight.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.pacing import closed
from redis_counters.drivers.threads.background import AutoResetEvent
from redis_counters.errors import CounterError, Unavailable
from redis_counters.protocol.keyed.batch import KeyedBatches
from redis_counters.protocol.keyed.calls import Call

if TYPE_CHECKING:
    from redis_counters.drivers.threads import ThreadRunner

LOOK_S = 1.0  # until a waiting thread looks whether any sends
MAX_CALLS = 1_000  # that are sent together: a later call should not wait for ever more of them


class _Group:
    """The calls of one thread, and what wakes it.

    ``over`` is set as the first thing when the thread is through with it, or interrupted, and counts from then on, even
    if another exception keeps it from waking the others. ``next`` is the one it wakes then.
    """

    __slots__ = ("calls", "deadline", "done", "event", "next", "over", "thread")

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = calls
        self.thread = threading.current_thread()
        self.event = AutoResetEvent()
        self.deadline = Deadline()
        self.next: _Group | None = None
        self.done = False
        self.over = False


class KeyedThreads:
    """Sends keyed calls for the threads of one process.

    A group stays in the queue until its calls have their outcome: whatever interrupts a leader (Ctrl-C, a signal
    handler that raises), the next one finds what was left, and sends it again, which counts nothing twice.
    """

    def __init__(self, runner: ThreadRunner) -> None:
        self.runner = runner
        self.keyed = KeyedBatches(runner.core.reads)
        self.lock = threading.RLock()
        self.queue: deque[_Group] = deque()
        self.leader: _Group | None = None  # whose thread sends, or will hand over when it is woken, unless it is over

    def do(self, calls: Sequence[Call]) -> None:
        """Every call has an answer or an error. Raises UsageError on a closed client."""
        if self.runner.state.refusing:
            raise closed()
        group = _Group(calls)
        try:
            with self.lock:
                leader = self._led_by()
                # An observer or a signal handler, while this very thread sends, would wait for itself.
                nested = leader is not None and leader.thread is group.thread
                if not nested:
                    self.queue.append(group)
                    if leader is None:
                        self.leader = group
            if nested:
                self._send([group], group.deadline)
                return
            woken = True
            while not group.done:
                if self.leader is group or self._takes_over(group, woken):
                    self._lead(group)
                elif not group.deadline.left():
                    self._fail([group], Unavailable(f"Redis is not reachable: {group.deadline.words}"))
                    return
                else:
                    woken = group.event.wait(min(LOOK_S, group.deadline.left()))
        finally:
            group.over = True
            if group.next is not None:
                group.next.event.set()
            if self.leader is group:
                self._hand_over(group)

    def _led_by(self, *, alive: bool = False) -> _Group | None:
        """Return the leader; None if it was interrupted, or (if asked) its thread has ended, as C code may end one."""
        leader = self.leader
        if leader is None or leader.over or (alive and not leader.thread.is_alive()):
            return None
        return leader

    def _takes_over(self, group: _Group, woken: bool) -> bool:
        with self.lock:
            leader = self._led_by(alive=not woken)
            # The same thread's: it became the leader while it waited, and this call is of a signal handler.
            if leader is None or leader.thread is group.thread:
                self.leader = group
                return True
            return False

    def _lead(self, leader: _Group) -> None:
        """Send what has gathered. The threads that wait for it are woken as soon as the leader is over."""
        sent = [leader]  # in any case, wherever it is in the queue: the leader must be through with it
        with self.lock:
            count = len(leader.calls)
            for group in self.queue:
                if group is leader or group.over or group.done:
                    continue
                count += len(group.calls)
                if count > MAX_CALLS:
                    break
                sent.append(group)
        self._send(sent, leader.deadline)
        self._pass_on(sent)

    def _pass_on(self, sent: Sequence[_Group]) -> None:
        """Each wakes the one behind it when it is over, the leader first; the last one leads from now on."""
        main = threading.main_thread()  # signal handlers run there, and nothing is to wait for them: it wakes no other
        leader = sent[0]
        chain = [leader, *(group for group in sent[1:] if group.thread is not main)]
        last = chain[-1]
        last.next = None
        for group, behind in pairwise(chain):
            group.next = behind
        for group in sent:
            group.done = True
            if group.thread is main:
                group.event.set()
        with self.lock:
            if self.leader is leader:
                self.leader = last
        for group in chain:  # if interrupted, then perhaps before it knew what to wake, or that it leads
            if group.over and group.next is not None:
                group.next.event.set()
        if last.over:
            self._hand_over(last)

    def _hand_over(self, group: _Group) -> None:
        """The first that waits leads, and is woken; unless another has found this group over, and leads already."""
        with self.lock:
            if self.leader is not group:
                return
            while self.queue and (self.queue[0].over or self.queue[0].done):
                self.queue.popleft()
            self.leader = self.queue[0] if self.queue else None
            if self.leader is not None:
                self.leader.event.set()

    def _send(self, groups: Sequence[_Group], deadline: Deadline) -> None:
        calls = [call for group in groups for call in group.calls]
        failure: Exception
        try:
            self.runner.ask(self.keyed.apply(calls), deadline)
            return
        except CounterError as error:
            failure = error
        except Exception as error:  # a fault of ours, or of a client: callers wait for it too
            failure = error
        self._fail(groups, failure)

    def _fail(self, groups: Sequence[_Group], failure: Exception) -> None:
        for group in groups:
            for call in group.calls:
                if call.open:
                    call.error = failure
