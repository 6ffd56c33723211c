# Generated from redis_counters/drivers/tasks/asking.py by `make blocking`: change that.
"""Questions to Redis, with the client's own retries."""

from __future__ import annotations

import random
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeVar

from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.pacing import closed
from redis_counters.drivers.redis_py.clients import LEAST_PAUSE, MOST_PAUSE
from redis_counters.drivers.redis_py.errors import lacks_connection, no_connection_left
from redis_counters.errors import Unavailable
from redis_counters.protocol.wire.answers import all_answered
from redis_counters.protocol.wire.commands import Command

if TYPE_CHECKING:
    from redis_counters.drivers.threads.reading import Reading

T = TypeVar("T")


def drive(runner: Reading, asks: Generator[list[Command], list[object], T], deadline: Deadline, *, whole: bool) -> T:
    """Drive a generator of questions; return what it returns. ``whole``: raise the error of an answer that is missing.

    A server of a cluster that is not there is no reason not to ask the others: the generator gets a `NoAnswer`, and the
    breaker does not count it.
    """
    runner.begin_here()
    if runner.over:
        raise closed()
    answers: Any = None
    while True:
        try:
            with runner.lock:
                commands = asks.send(answers)
        except StopIteration as stop:
            result: T = stop.value
            return result
        answers = _ask(runner, commands, deadline)
        if whole:
            all_answered(answers)


def _ask(runner: Reading, commands: list[Command], deadline: Deadline) -> list[object]:
    runner.breaker.check()
    try:
        answers = _ask_patiently(runner, commands, deadline)
    except Unavailable as error:
        if not no_connection_left(error) and runner.breaker.failed(error):
            runner.publish()
        raise
    if runner.breaker.succeeded():
        runner.publish()
    return answers


def _ask_patiently(runner: Reading, commands: list[Command], deadline: Deadline) -> list[object]:
    """As the transport; over several servers nothing waits for a connection to one while it has one to another."""
    pause = LEAST_PAUSE
    while True:
        answers = runner.transport.ask_each(commands, deadline)
        if not lacks_connection(answers) or deadline.left() <= pause:
            return answers
        time.sleep(pause * random.random())
        pause = min(2 * pause, MOST_PAUSE)
