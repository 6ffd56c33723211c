"""The asyncio driver: a task flushes, callers read; the event loop is the lock.

The task is started by the first increment that finds a running loop. Everything that decides is the core's, shared with
the blocking driver; here is only waiting.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import time
from collections.abc import Callable, Collection, Generator
from typing import Any, TypeVar

from redis_counters.drivers.breaker import Breaker
from redis_counters.drivers.pacing import (
    FLUSH_TIMEOUT,
    IDLE_POLL,
    IMPATIENCE,
    MOST_PAUSE,
    REST,
    buffer_full,
    closed,
    not_delivered,
    retry_options,
    round_error,
    settle_close,
    settle_flush,
)
from redis_counters.drivers.redis_py import AsyncioLane, Client, ask_asyncio, no_connection_left, translate
from redis_counters.errors import CounterError, Refused, Unavailable
from redis_counters.events import log, publish
from redis_counters.protocol.commands import Command
from redis_counters.protocol.core import Core
from redis_counters.protocol.durability import Unconfirmed
from redis_counters.protocol.pump import Send
from redis_counters.protocol.reads import Claim
from redis_counters.protocol.stats import Stats
from redis_counters.protocol.values import CounterValue, Name

T = TypeVar("T")

_runners: set[TaskRunner] = set()  # until they are closed: who forgets to is told at exit


class TaskRunner:
    """Drives a core for tasks of one event loop."""

    def __init__(self, core: Core, client: Client) -> None:
        from tenacity import AsyncRetrying

        self.core = core
        self.client = client
        self.breaker = Breaker(core)
        self.retrying = AsyncRetrying(sleep=self._pause, **retry_options(core))
        self.refusing = False  # close() was called: nothing more is taken in,
        self.stopped = False  # and by now it is over
        self._reset()
        _runners.add(self)

    def _reset(self) -> None:
        self.fetched = asyncio.Event()  # set and replaced whenever somebody's fetch is over
        self.awake = asyncio.Event()  # there is something in the buffer
        self.urgent = asyncio.Event()  # somebody waits for a flush
        self.progress = asyncio.Event()  # set and replaced whenever a round has made progress, or has failed
        self.rounding = asyncio.Lock()  # one round at a time
        self.task: asyncio.Task[None] | None = None
        self.rounds = 0
        self.refusal: Refused | None = None

    def after_fork_in_child(self) -> None:
        """The child owns nothing: what waits belongs to the parent, whose loop does not run here."""
        self._reset()
        self.core.begin()

    # -- the task

    def wake(self, name: Name, amount: int) -> bool:
        """A flush will follow within the interval. True if the amount has been counted here, with no room to spare.

        Called only when the buffer is empty.
        """
        if self.refusing:
            raise closed(name)
        if (self.task is None or self.task.done()) and not self._start():
            # Taken in here and now: a buffer that nobody empties would grow, and never be found empty again.
            self.core.count(name, amount)
            return True
        self.awake.set()
        writer = self.core.writer
        if not writer.full:
            return False
        if self.core.squeeze(name, amount):
            return True
        if writer.full:
            raise buffer_full(self.core, name)
        return False

    def _start(self) -> bool:
        """The task runs. False outside of an event loop: a later increment inside of one, or flush(), starts it."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        self.task = loop.create_task(self._run(), name="redis-counters")
        self.task.add_done_callback(self._ended)
        return True

    def _ended(self, task: asyncio.Task[None]) -> None:
        """The task was cancelled by somebody: the next increment finds the buffer empty, and starts another."""
        if task is self.task and not self.stopped:
            self.core.writer.drain()

    async def _run(self) -> None:
        while not self.stopped:
            try:
                await self._wait_and_flush()
                await self.keep_house()
            except Exception:  # a fault of ours, or of a client: what waits must not wait for ever because of it
                if not self.stopped:
                    log.exception("flushing failed unexpectedly, going on")
                    await self._pause(MOST_PAUSE)

    async def _wait_and_flush(self) -> None:
        if self.core.writer.clean:
            await _wait(self.awake, min(IDLE_POLL, self.core.housekeeping.wait()))
        self.awake.clear()
        if self._nothing_to_do():
            return
        if not await self._rest_or_keep_house(self.core.settings.flush_interval) and self._nothing_to_do():
            return
        self.urgent.clear()
        await self.retrying(self._round_unless_stopped)

    async def _rest_or_keep_house(self, seconds: float) -> bool:
        """Return whether somebody wants a flush before that time is over; meanwhile the janitor goes on."""
        end = time.monotonic() + seconds
        while (rest := end - time.monotonic()) > 0 and not self.stopped:
            pause = self.core.housekeeping.wait()
            if await _wait(self.urgent, min(rest, pause)):
                return True
            if pause < rest:
                await self.keep_house()
        return False

    async def keep_house(self) -> None:
        """The janitor has made a step, if it was time for one. Whatever stops it stops it until its next pass."""
        housekeeping = self.core.housekeeping
        if housekeeping.wait() > 0:
            return
        commands = housekeeping.commands()
        if commands is not None:
            began = time.monotonic()
            ticker = asyncio.get_running_loop().create_task(self._absorb_meanwhile())
            try:
                async with self.rounding, AsyncioLane(self.client) as lane:
                    answers = await lane.exchange(commands)
            except BaseException as error:
                housekeeping.abandoned()
                if translate(error) is None:
                    raise
            else:
                housekeeping.answered(answers, time.monotonic() - began)
                return
            finally:
                ticker.cancel()
        self.publish()

    def _nothing_to_do(self) -> bool:
        return not self.urgent.is_set() and self.core.nothing_to_do()

    async def _pause(self, seconds: float) -> None:
        """Wait, unless somebody wants a flush; meanwhile the buffer must not grow with every increment."""
        end = time.monotonic() + seconds
        while (rest := end - time.monotonic()) > 0 and not self.stopped:
            if await _wait(self.urgent, min(rest, self.core.settings.flush_interval)):
                await asyncio.sleep(min(rest, IMPATIENCE))
                break
            self.core.writer.absorb()
        self.urgent.clear()

    async def _round_unless_stopped(self) -> None:
        """A round that fails after some progress is followed by the next at once: only a standstill has to wait."""
        while not self.stopped:
            flushes = self.core.writer.flushes
            try:
                await self.round()
                return
            except Unavailable:
                if self.core.writer.flushes == flushes:
                    raise

    async def round(self) -> None:
        """Everything that could be sent was sent, and answered. Raises Unavailable, Refused; nothing is lost by it."""
        self.refusal = None
        try:
            async with self.rounding:
                await self._drive_round()
        except Exception as error:
            ours = translate(error)
            if ours is None:
                raise
            self.core.failed(ours)
            if isinstance(ours, Unavailable) and not isinstance(ours, Unconfirmed):
                self.breaker.failed(ours)
            self.refusal = ours if isinstance(ours, Refused) else None
            if ours is error:
                raise
            raise ours from error
        finally:
            self.rounds += 1
            self._progressed()
            self.publish()

    def publish(self) -> None:
        """What has happened is in the log and with the observer."""
        for event in self.core.take_events():
            publish(event, self.core.observer)

    async def _drive_round(self) -> None:
        if self.core.writer.keys is None:  # the namespace may take long to answer
            self.core.writer.absorb()
        steps = self.core.round()
        ticker = asyncio.get_running_loop().create_task(self._absorb_meanwhile())
        try:
            async with AsyncioLane(self.client) as lane:
                answer: object = None
                while True:
                    try:
                        step = steps.send(answer)
                    except StopIteration:
                        break
                    if isinstance(step, Send):
                        answer = None
                        await lane.send(step.command, step.text)
                    else:
                        answer = await lane.receive()
                        self._progressed()
        finally:
            ticker.cancel()
            steps.close()
        error = round_error(self.core)
        if error is not None:
            raise error
        self.core.succeeded()
        self.breaker.succeeded()

    async def _absorb_meanwhile(self) -> None:
        while True:
            await asyncio.sleep(self.core.settings.flush_interval)
            if self.core.overdue:
                self.core.writer.absorb()

    def _progressed(self) -> None:
        self.progress.set()
        self.progress = asyncio.Event()

    # -- callers

    async def flush(self, timeout: float | None) -> None:
        limit = FLUSH_TIMEOUT if timeout is None else timeout
        goal = self.core.begin_flush()
        if goal is None:
            return
        if self.stopped:
            raise closed()
        await self._work_until(goal.reached, time.monotonic() + limit)
        settle_flush(self.core, goal.reached(), limit)

    async def close(self, timeout: float) -> None:
        writer = self.core.writer
        if self.refusing:
            return
        self.refusing = True
        self.core.begin_close()
        refusal: Refused | None = None
        try:
            await self._work_until(lambda: writer.closed, time.monotonic() + timeout)
        except Refused as error:
            refusal = error
        except BaseException:  # interrupted: it may be closed again
            self.refusing = writer.closing = False
            raise
        self.stopped = True
        writer.closing = False
        await self._end_task()
        _runners.discard(self)
        try:
            settle_close(self.core, timeout, refusal)
        finally:
            self.publish()

    async def _end_task(self) -> None:
        self.awake.set()
        self.urgent.set()
        task, self.task = self.task, None
        if task is not None and not task.done():
            _done, waiting = await asyncio.wait({task}, timeout=REST)
            for late in waiting:
                late.cancel()
                await asyncio.wait({late}, timeout=REST)

    async def _work_until(self, done: Callable[[], bool], deadline: float) -> None:
        if self.task is None or self.task.done():
            self._start()
        rounds = self.rounds
        while not done() and not self.stopped:
            if self.refusal is not None and self.rounds > rounds + 1:
                raise self.refusal
            self.urgent.set()
            self.awake.set()
            rest = deadline - time.monotonic()
            if rest <= 0:
                return
            await _wait(self.progress, min(rest, 0.1))

    def add(self, name: Name, amount: int) -> None:
        if not self.core.add(name, amount):
            self.core.add_large(name, amount)

    def declare(self, name: bytes, shards: int | None) -> None:
        self.core.declare(name, shards)

    # -- reading

    async def ask(self, asks: Generator[list[Command], list[object], T]) -> T:
        answers: Any = None
        while True:
            try:
                commands = asks.send(answers)
            except StopIteration as stop:
                result: T = stop.value
                return result
            answers = await self._ask(commands)

    async def _ask(self, commands: list[Command]) -> list[object]:
        self.breaker.check()
        try:
            answers = await self._ask_patiently(commands)
        except Unavailable as error:
            if self.breaker.failed(error):
                self.publish()
            raise
        if self.breaker.succeeded():
            self.publish()
        return answers

    async def _ask_patiently(self, commands: list[Command]) -> list[object]:
        try:
            return await ask_asyncio(self.client, commands)
        except Unavailable as error:
            if not no_connection_left(error):
                raise
            async with self.rounding:  # a round may have the only connection; between rounds it is free
                return await ask_asyncio(self.client, commands)

    async def read(self, names: Collection[bytes], max_age: float | None) -> dict[bytes, CounterValue]:
        reads = self.core.reads
        claim = reads.claim(names, max_age, None)
        if claim.busy:
            claim = await self._wait_to_claim(names, max_age)
        if not claim.missing:
            return claim.values
        failure: CounterError | None = None
        try:
            return claim.values | await self.ask(reads.fetch(claim.missing))
        except CounterError as error:
            failure = error
            raise
        finally:
            reads.release(claim.missing, failure)
            self.fetched.set()
            self.fetched = asyncio.Event()

    async def _wait_to_claim(self, names: Collection[bytes], max_age: float | None) -> Claim:
        """Return a claim as soon as nobody else fetches what it lacks. Raises what the fetch did."""
        reads, since = self.core.reads, self.core.clock()
        while True:
            await self.fetched.wait()
            failure = reads.failure(names, since)
            if failure is not None:
                raise failure
            claim = reads.claim(names, max_age, since)
            if not claim.busy:
                return claim

    def stats(self) -> Stats:
        return self.core.stats()


async def _wait(event: asyncio.Event, seconds: float) -> bool:
    """Return whether the event was set within that time.

    Not by asyncio.wait_for: up to Python 3.11 it loses a cancellation that comes together with the event.
    """
    if event.is_set():
        return True
    waiter = asyncio.ensure_future(event.wait())
    try:
        done, _ = await asyncio.wait({waiter}, timeout=seconds)
    finally:
        waiter.cancel()
    return bool(done)


def _after_fork_in_child() -> None:
    for runner in list(_runners):
        runner.after_fork_in_child()


def _report_at_exit() -> None:
    """Nothing can be sent any more, without a loop; what is lost is said."""
    for runner in list(_runners):
        runner.core.writer.drain()
        not_delivered(runner.core, "and the client was not closed")
        runner.publish()


atexit.register(_report_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
