"""The steps of a round of flushing, awaited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redis_counters.drivers.transport import AwaitedLane
from redis_counters.protocol.flush.round import RecordStep, SendStep, Steps

if TYPE_CHECKING:
    from redis_counters.drivers.tasks.rounds import Rounds


async def work_through(rounds: Rounds, steps: Steps, lane: AwaitedLane) -> None:
    """Send, receive and record as the steps say. Raises what the connection raises."""
    recording = rounds.recording
    answer: object = None
    while True:
        try:
            with rounds.lock:
                step = steps.send(answer)
                if answer is not None:
                    rounds.progressed()
        except StopIteration:
            return
        if isinstance(step, SendStep):
            await rounds.send(lane, step)
            answer = None
        elif isinstance(step, RecordStep):
            answer = recording is not None and await recording.record(step.recorder)
        else:
            answer = await lane.receive()
            if lane.on_new_connection():
                with rounds.lock:
                    rounds.core.new_connection()
