"""`flush` and `close`, awaited: all that was counted is in Redis, or the error says what is not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

from redis_counters.drivers.client_state import ClientState
from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.pacing import END_TIMEOUT_S, LATE_LOOK_S, LATE_LOOKS, check_closed, check_flushed, closed
from redis_counters.drivers.tasks.background import Background
from redis_counters.drivers.tasks.recording import Recording
from redis_counters.drivers.tasks.waiting import Waiting
from redis_counters.errors import CounterError, Refused

OURS = "redis-counters"  # how the names of this library's threads begin


class Delivery:
    """Has callers wait until the background, or they themselves, have brought all to Redis."""

    def __init__(
        self,
        state: ClientState,
        waiting: Waiting,
        background: Background,
        recording: Recording | None,
    ) -> None:
        self.state = state
        self.waiting = waiting
        self.background = background
        self.recording = recording
        self.refusal: Refused | None = None  # what close() will be refused for

    async def flush(self, limit: float, only: bytes | None) -> None:
        """All that was buffered is in Redis, and what killed processes left. ``limit``: seconds.

        ``only``: what is refused of other counters is reported by the next flush. Raises Unavailable, Refused.
        """
        state = self.state
        if state.over:
            raise closed()
        if self.recording is not None:
            await self.recording.seek()
        with state.lock:
            target = state.core.begin_flush()
            if target is None:
                return
            if state.stopped:
                raise closed()
        await self.waiting.until(target.reached, monotonic() + limit)
        with state.lock:
            check_flushed(state.core, target.reached(), limit, closed=state.stopped, only=only)
            state.breaker.succeeded()  # the round may go on with something else

    async def close(self, timeout: float, let_go: Callable[[], Awaitable[None]]) -> None:
        """Deliver all, then end. Interrupted anywhere, it goes on where it was when it is called again.

        ``let_go``: the hooks of the process forget the client.
        """
        state, core = self.state, self.state.core
        if not state.stopped:
            await self._deliver(timeout)
        core.writer.closing = False
        self.waiting.flusher.urgent.set()
        await self.background.end(END_TIMEOUT_S)
        await let_go()
        if self.recording is not None:
            with state.lock:
                core.writer.absorb()
            await self.recording.close()
        try:
            with state.lock:
                check_closed(core, timeout, self.refusal)
        except CounterError:
            self._end()
            raise
        else:
            self._end()
        finally:
            state.publish()

    async def _deliver(self, timeout: float) -> None:
        """Nothing is taken in any more; what was is sent, and the client's actors are closed and folded."""
        state, core, writer = self.state, self.state.core, self.state.core.writer
        try:
            with state.lock:
                state.refusing = True  # first: what counts from now on is refused, and what just did is drained
                core.begin_close()
            deadline = monotonic() + timeout
            await self.waiting.until(lambda: writer.closed and core.orphans_over, deadline)
            while monotonic() < deadline and await self._counted_late():
                await self.waiting.until(lambda: writer.closed, deadline)
            state.stopped = True
        except Refused as error:
            self.refusal = error
            state.stopped = True
        finally:
            if not state.stopped:
                state.refusing = writer.closing = False

    async def _counted_late(self) -> bool:
        """Other threads have had a turn; True if one has counted that had looked before close() began to refuse."""
        others = [thread for thread in threading.enumerate() if not thread.name.startswith(OURS)]
        for _ in range(LATE_LOOKS if len(others) > 1 else 0):
            await asyncio.sleep(LATE_LOOK_S)
            if not self.state.core.writer.clean:
                return True
        return False

    def _end(self) -> None:
        self.state.over = True
        self.state.core.reads.cache.snapshots.clear()  # they would be read from a closed client
