"""What the background does, turn by turn, awaited: it waits, flushes at its pace, keeps house, tries again."""

from __future__ import annotations

import asyncio

from redis_counters.drivers.client_state import ClientState
from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.pacing import IDLE_POLL_S, MAX_PAUSE_S, MIN_RETRY_S, retry_options
from redis_counters.drivers.redis_py.errors import translate
from redis_counters.drivers.tasks.background import SURVIVED, AutoResetEvent, Background
from redis_counters.drivers.tasks.recording import Recording
from redis_counters.drivers.tasks.rounds import Rounds
from redis_counters.errors import Unavailable
from redis_counters.events import EventKind, log


class Flusher:
    """Decides when a round is due, of flushing or of the janitor."""

    def __init__(self, state: ClientState, rounds: Rounds, background: Background, recording: Recording | None) -> None:
        # Not in the background: a fork during an import leaves the import's lock held in the child for ever.
        from tenacity import AsyncRetrying

        self.state = state
        self.rounds = rounds
        self.background = background
        self.recording = recording
        self.interval = state.core.settings.flush_interval
        self.urgent = AutoResetEvent()  # a caller waits for a flush
        self.expecting = 0.0  # a flush was requested: until then something may come
        self.retrying = AsyncRetrying(sleep=self.wait_to_retry, **retry_options(state.core))

    async def turn(self) -> None:
        """Wait until there is something to do, and do it. Whatever fails, callers must not wait for ever."""
        try:
            await self._wait_and_flush()
            await self._keep_house()
        except SURVIVED as error:  # a fault of ours, or of a client
            if self.state.stopped:
                return
            log.exception("flushing failed unexpectedly, going on")
            if not isinstance(error, Exception):
                self.state.core.report(
                    EventKind.FLUSHER_RESTARTED,
                    f"the thread that flushes was to end by {type(error).__name__}, it goes on",
                )
                self.state.publish()
            await self.wait_to_retry(MAX_PAUSE_S)

    async def _wait_and_flush(self) -> None:
        background = self.background
        background.heartbeat()
        if await background.asked.wait(self._patience()):
            self.expecting = monotonic() + IDLE_POLL_S
        background.heartbeat()
        if self.nothing_to_do():
            return
        if not self.urgent.is_set() and not await self._rest(self.interval) and self.nothing_to_do():
            return
        self.urgent.clear()
        await self.retrying(self._flush)

    def _patience(self) -> float:
        with self.state.lock:
            if not self.state.core.writer.clean:
                return 0.0
            longest = min(IDLE_POLL_S, self.state.core.housekeeping.wait())
        # A thread that counts asks first: its increment may come a little later than that.
        return min(longest, self.interval) if monotonic() < self.expecting else longest

    def nothing_to_do(self) -> bool:
        with self.state.lock:
            return not self.urgent.is_set() and self.state.core.nothing_to_do()

    async def _rest(self, seconds: float) -> bool:
        """Return whether a flush is wanted before that time is over; meanwhile the janitor goes on."""
        end = monotonic() + seconds
        while (rest := end - monotonic()) > 0 and not self.state.stopped:
            with self.state.lock:
                until_janitor = self.state.core.housekeeping.wait()
            if await self.urgent.wait(min(rest, until_janitor)):
                return True
            if until_janitor < rest:
                await self._keep_house()
        return False

    async def _keep_house(self) -> None:
        """The janitor has made a step, if it was time for one. What stops it stops it until its next pass."""
        state, housekeeping = self.state, self.state.core.housekeeping
        with state.lock:
            if housekeeping.wait() > 0:
                return
            commands = housekeeping.commands()
        if commands is not None:
            began = monotonic()
            try:
                answers = await self.rounds.exchange(commands)
            except BaseException as error:
                with state.lock:
                    housekeeping.abandoned()
                if translate(error) is None:
                    raise
            else:
                with state.lock:
                    housekeeping.answered(answers, monotonic() - began)
                return
        state.publish()

    async def wait_to_retry(self, seconds: float) -> None:
        """Wait, unless a flush is wanted; meanwhile the buffer must not grow with every increment."""
        end = monotonic() + seconds
        while (rest := end - monotonic()) > 0 and not self.state.stopped:
            self.background.heartbeat()
            if await self.urgent.wait(min(rest, self.interval)):
                await asyncio.sleep(min(rest, MIN_RETRY_S))  # Redis is not there the sooner for being asked at once
                break
            with self.state.lock:
                self.state.core.writer.absorb()
            if self.recording is not None:
                await self.recording.own()
        self.urgent.clear()

    async def _flush(self) -> None:
        """Run a round. One that fails after some progress is followed by the next at once: only a standstill waits.

        Where one server of a cluster is gone, and the others are there, rounds fail like that again and again: from
        the second on they come at the usual pace.
        """
        seconds = 0.0
        while not self.state.stopped:
            flushes = self.state.core.writer.flushes
            try:
                await self.rounds.flush()
                return
            except Unavailable:
                if self.state.core.writer.flushes == flushes:
                    raise
            await self.wait_to_retry(seconds)
            seconds = min(self.interval, MAX_PAUSE_S)
