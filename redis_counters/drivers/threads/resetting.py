# Generated from redis_counters/drivers/tasks/resetting.py by `make blocking`: change that.
"""`reset` and `delete` awaited: what is buffered first, then the scripts, then what confirms them."""

from __future__ import annotations

from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.pacing import closed
from redis_counters.drivers.redis_py.errors import translate
from redis_counters.drivers.threads.runner import ThreadRunner
from redis_counters.errors import CounterError
from redis_counters.protocol.read.reset import Taken, check_confirmed, flushed_before, take_away, with_taken
from redis_counters.protocol.wire.durability import Durability, confirm


def taken_away(runner: ThreadRunner, name: bytes, *, delete: bool) -> int:
    """Return what the counter counted in Redis, and does no more."""
    runner.begin_here()
    if runner.state.refusing:
        raise closed()
    deadline = Deadline()
    with flushed_before(name, delete=delete):
        runner.flush(deadline.seconds, only=name)
    taken = Taken()
    try:
        return _taken_away(runner, name, taken, deadline, delete=delete)
    except CounterError as error:
        ours = with_taken(error, name, taken)
        if ours is error:
            raise
        raise ours from error


def _taken_away(runner: ThreadRunner, name: bytes, taken: Taken, deadline: Deadline, *, delete: bool) -> int:
    durability = runner.core.settings.durability
    if durability is None:
        return runner.ask(take_away(runner.core.reads, name, taken, delete=delete), deadline)
    return _confirmed(runner, durability, name, taken, deadline, delete=delete)


def _confirmed(
    runner: ThreadRunner, durability: Durability, name: bytes, taken: Taken, deadline: Deadline, *, delete: bool
) -> int:
    """All of it over one connection, or one per server: a confirmation speaks of what its own connection wrote last."""
    asks, answers = take_away(runner.core.reads, name, taken, delete=delete), None
    runner.state.breaker.check()
    try:
        with runner.transport.lane(deadline) as lane:
            while True:
                try:
                    with runner.state.lock:
                        commands = asks.send(answers)  # type: ignore[arg-type]  # of a generator that begins
                except StopIteration as stop:
                    amount: int = stop.value
                    break
                answers = lane.exchange(commands)
            (raw,) = lane.exchange([confirm(durability)])
    except Exception as error:
        ours = translate(error)
        if ours is None or ours is error:
            raise
        raise ours from error
    check_confirmed(durability, raw, name, delete=delete)
    return amount
