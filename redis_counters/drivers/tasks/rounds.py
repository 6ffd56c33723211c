"""One round at a time, awaited, on a connection of its own: flushing, or a step of the janitor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from redis_counters.drivers.client_state import ClientState
from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.pacing import kept_if_refused, round_error, unforeseen
from redis_counters.drivers.process.finalizer import without_traceback
from redis_counters.drivers.redis_py.errors import translate
from redis_counters.drivers.tasks.background import AutoResetEvent, Background
from redis_counters.drivers.tasks.recording import Recording
from redis_counters.drivers.transport import AwaitedLane, AwaitedTransport
from redis_counters.errors import CounterError, Refused, Unavailable
from redis_counters.protocol.flush.round import RecordStep, SendStep, Steps
from redis_counters.protocol.wire.answers import all_answered
from redis_counters.protocol.wire.commands import Command


class Rounds:
    """Whatever uses a connection for flushing. Callers wait for what its rounds do."""

    def __init__(
        self,
        state: ClientState,
        transport: AwaitedTransport,
        background: Background,
        recording: Recording | None,
    ) -> None:
        self.state = state
        self.transport = transport
        self.background = background
        self.recording = recording
        self.lock = asyncio.Lock()  # one round at a time,
        self.steps: Steps | None = None  # and this is it, if it is one of flushing
        self.count = 0  # rounds of flushing that have ended
        self.refusal: Refused | None = None  # what the last of them as a whole was refused for
        self.waiters: list[tuple[Callable[[], bool], AutoResetEvent]] = []  # what callers wait for, and what wakes them

    async def flush(self, until: Deadline | None = None) -> None:
        """Everything that could be sent was sent, and answered. Raises Unavailable, Refused; nothing is lost by it.

        ``until``: when it is over in any case.
        """
        try:
            async with self.lock:
                await self._flush(until)
        finally:
            self.state.publish()

    async def _flush(self, until: Deadline | None) -> None:
        try:
            self.background.begin_round()
            await self._send_all(until)
        except Exception as error:
            ours = self._failed(error)
            if ours is error:
                raise
            raise ours from error
        finally:
            self.background.end_round()
            self.count += 1
            self._wake_waiters(everyone=True)

    async def _send_all(self, until: Deadline | None) -> None:
        state, core, recording = self.state, self.state.core, self.recording
        if self.steps is not None:  # an exception of a signal handler kept it from being closed
            with state.lock:
                self.steps.close()
        if recording is not None:
            await recording.seek()
        if recording is not None or core.writer.router.keys is None:  # the namespace may take long to answer
            with state.lock:
                core.writer.absorb()
        if recording is not None:
            await recording.own()
        steps = self.steps = core.round()
        try:
            async with self.background.lane(self.transport, until) as lane:
                self.background.connecting = False
                await self._work_through(steps, lane)
        finally:
            with state.lock:
                steps.close()
            self.steps = None
        if recording is not None:
            await recording.tidy()
        with state.lock:
            error = round_error(core)
            if error is None:
                core.succeeded()
                state.breaker.succeeded()
                self.refusal = None
        if error is not None:
            raise error

    async def _work_through(self, steps: Steps, lane: AwaitedLane) -> None:
        """Send, receive and record as the steps say. Raises what the connection raises."""
        state, background, recording = self.state, self.background, self.recording
        answer: object = None
        while True:
            try:
                with state.lock:
                    step = steps.send(answer)
                    if answer is not None:
                        self._wake_waiters()
            except StopIteration:
                return
            if isinstance(step, SendStep):
                background.connecting = True  # over several servers a lane does so when it has to
                await lane.send(step.command, step.text)
                background.connecting = False
                answer = None
            elif isinstance(step, RecordStep):
                answer = recording is not None and await recording.record(step.recorder)
            else:
                answer = await lane.receive()
                if lane.on_new_connection():
                    with state.lock:
                        state.core.new_connection()

    def _failed(self, error: Exception) -> CounterError:
        """Count the failure of a round; return it as our error."""
        state = self.state
        known = translate(error)
        ours = known or unforeseen(state.core, error)
        with state.lock:
            state.core.failed(kept_if_refused(ours), error)
            if isinstance(known, Unavailable) and known is not error:  # not what Redis answers
                state.breaker.failed(known)
            self.refusal = without_traceback(ours) if isinstance(ours, Refused) else None
        return ours

    def _wake_waiters(self, *, everyone: bool = False) -> None:
        for done, event in tuple(self.waiters):
            if everyone or done():
                event.set()

    async def exchange(self, commands: list[Command]) -> list[object]:
        """Return the answers to commands of the janitor. Raises where one has none."""
        async with self.lock:
            try:
                self.background.begin_round()
                async with self.background.lane(self.transport) as lane:
                    self.background.connecting = False
                    return all_answered(await lane.exchange(commands))
            finally:
                self.background.end_round()

    def abandon(self) -> bool:
        """The round that was under way will not end: its thread or loop is gone. Return whether it was of flushing."""
        steps, self.steps = self.steps, None
        self.lock = asyncio.Lock()
        if steps is not None:
            with self.state.lock:
                steps.close()
        return steps is not None
