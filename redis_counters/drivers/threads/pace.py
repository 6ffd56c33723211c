# Generated from redis_counters/drivers/tasks/pace.py by `make blocking`: change that.
"""What the flusher does between and around rounds: it rests, keeps house, pauses, tries again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.pacing import IMPATIENCE, MOST_PAUSE
from redis_counters.drivers.redis_py.errors import translate
from redis_counters.errors import Unavailable

if TYPE_CHECKING:
    from redis_counters.drivers.threads.flusher import Flusher


def rest_or_keep_house(flusher: Flusher, seconds: float) -> bool:
    """Return whether a flush is wanted before that time is over; meanwhile the janitor goes on."""
    end = monotonic() + seconds
    while (rest := end - monotonic()) > 0 and not flusher.stopped:
        with flusher.lock:
            pause = flusher.core.housekeeping.wait()
        if flusher.urgent.wait(min(rest, pause)):
            return True
        if pause < rest:
            keep_house(flusher)
    return False


def keep_house(flusher: Flusher) -> None:
    """The janitor has made a step, if it was time for one. What stops it stops it until its next pass."""
    housekeeping = flusher.core.housekeeping
    with flusher.lock:
        if housekeeping.wait() > 0:
            return
        commands = housekeeping.commands()
    if commands is not None:
        began = monotonic()
        try:
            answers = flusher.exchange(commands)
        except BaseException as error:
            with flusher.lock:
                housekeeping.abandoned()
            if translate(error) is None:
                raise
        else:
            with flusher.lock:
                housekeeping.answered(answers, monotonic() - began)
            return
    flusher.publish()


def pause(flusher: Flusher, seconds: float) -> None:
    """Wait, unless a flush is wanted; meanwhile the buffer must not grow with every increment."""
    end = monotonic() + seconds
    while (rest := end - monotonic()) > 0 and not flusher.stopped:
        flusher.beat()
        if flusher.urgent.wait(min(rest, flusher.core.settings.flush_interval)):
            time.sleep(min(rest, IMPATIENCE))  # Redis is not there the sooner for being asked at once
            break
        with flusher.lock:
            flusher.core.writer.absorb()
        if flusher.recording is not None:
            flusher.recording.own()
    flusher.urgent.silence()


def round_unless_stopped(flusher: Flusher) -> None:
    """Run a round. One that fails after some progress is followed by the next at once: only a standstill has to wait.

    Where one server of a cluster is gone, and the others are there, rounds fail like that again and again: from
    the second on they come at the usual pace.
    """
    seconds = 0.0
    while not flusher.stopped:
        flushes = flusher.core.writer.flushes
        try:
            flusher.round()
            return
        except Unavailable:
            if flusher.core.writer.flushes == flushes:
                raise
        pause(flusher, seconds)
        seconds = min(flusher.core.settings.flush_interval, MOST_PAUSE)
