"""How callers of the asyncio face wait until the background got there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from redis_counters.drivers.client_state import ClientState
from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.process.finalizer import without_traceback
from redis_counters.drivers.tasks.background import AutoResetEvent, Background
from redis_counters.drivers.tasks.flusher import Flusher
from redis_counters.drivers.tasks.rounds import Rounds


@dataclass(eq=False)
class Waiting:
    """Asks the background, and is woken by its rounds."""

    state: ClientState
    background: Background
    rounds: Rounds
    flusher: Flusher

    async def until(self, done: Callable[[], bool], deadline: float) -> None:
        """Wait until it is done, or the deadline has passed. Raises what a round of this time was refused for."""
        if done():  # where nothing was counted no task is started
            return
        self.background.start()
        rounds, before = self.rounds, self.rounds.count
        waiter = done, AutoResetEvent()
        rounds.waiters.append(waiter)
        try:
            while not done() and not self.state.stopped:
                if rounds.refusal is not None and rounds.count > before + 1:
                    raise without_traceback(rounds.refusal)
                left = deadline - monotonic()
                if left <= 0:
                    return
                self.flusher.urgent.set()
                self.background.asked.set()
                await waiter[1].wait(min(left, 0.1))
        finally:
            rounds.waiters.remove(waiter)
            if not rounds.waiters:
                self.flusher.urgent.clear()  # or what is counted next would be flushed at once
