"""How callers of the blocking face wait until the background got there, and do its work where it makes no progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from redis_counters.drivers.client_state import ClientState
from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.process.finalizer import without_traceback
from redis_counters.drivers.threads.background import AutoResetEvent, Background
from redis_counters.drivers.threads.flusher import Flusher
from redis_counters.drivers.threads.inline import Inline
from redis_counters.drivers.threads.rounds import Rounds

HELP_AFTER_S = 1.0  # after which a waiting caller helps, without a word: the machine may be busy

Waiter = tuple[Callable[[], bool], AutoResetEvent]


@dataclass(eq=False)
class Waiting:
    """Asks the background, is woken by its rounds, and watches its heartbeats."""

    state: ClientState
    background: Background
    rounds: Rounds
    flusher: Flusher
    inline: Inline

    def until(self, done: Callable[[], bool], deadline: float) -> None:
        """Wait until it is done, or the deadline has passed; without a thread that makes progress, do it here.

        Raises what a round of this time was refused for.
        """
        if not self._served(done, deadline):
            self.inline.work_until(done, deadline)

    def _served(self, done: Callable[[], bool], deadline: float) -> bool:
        """Wait until it is done, or the deadline has passed. False if the thread makes no progress."""
        background, rounds, before = self.background, self.rounds, self.rounds.count
        waiter = done, AutoResetEvent()
        try:
            rounds.waiters.append(waiter)
            heartbeats, noticed = -1, 0.0
            while True:
                with self.state.lock:
                    if done() or self.state.stopped:
                        return True
                    if rounds.refusal is not None and rounds.count > before + 1:
                        raise without_traceback(rounds.refusal)
                now = monotonic()
                if now >= deadline:
                    return True
                if not background.start():  # not before: where nothing was counted no thread is started
                    return False
                self.flusher.urgent.set()
                background.ask()
                if heartbeats != background.heartbeats:
                    heartbeats, noticed = background.heartbeats, now
                elif now - noticed > min(HELP_AFTER_S, (deadline - noticed) / 2):
                    if not background.replaced() and not background.connecting:
                        return False
                    noticed = now
                if background.unavailable:
                    return False
                if self.state.core.writer.events and not rounds.lock.locked():
                    self.state.publish()
                waiter[1].wait(min(deadline - now, 0.1))
        finally:
            self._no_longer_waits(waiter)

    def for_room(self, has_room: Callable[[], bool]) -> None:
        """Wait a moment for room in a full buffer."""
        if not self.background.ask() and self.background.unavailable:
            self.inline.work_until(has_room, monotonic() + 0.1)
            return
        self.flusher.urgent.set()
        waiter = has_room, AutoResetEvent()
        try:
            self.rounds.waiters.append(waiter)
            waiter[1].wait(0.1)
        finally:
            self._no_longer_waits(waiter)

    def _no_longer_waits(self, waiter: Waiter) -> None:
        waiters = self.rounds.waiters
        if waiter in waiters:
            waiters.remove(waiter)
        if not waiters:
            self.flusher.urgent.clear()  # set after its round, it would have what is counted next flushed at once
