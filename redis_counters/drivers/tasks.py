"""The asyncio driver: a task flushes, callers read; the event loop is the lock.

The task is started by the first increment that finds a running loop. Everything that decides is the core's, shared with
the blocking driver; here is only waiting.

A client belongs to the event loop in which it was first used, until that is closed; then to the next one. Other threads
than the loop's may count: what they count goes into the buffer, and the loop is told.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Collection, Coroutine, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from redis_counters.drivers import exits
from redis_counters.drivers.breaker import Breaker
from redis_counters.drivers.inherited import drop_connections
from redis_counters.drivers.pacing import (
    FLUSH_TIMEOUT,
    IDLE_POLL,
    IMPATIENCE,
    MOST_PAUSE,
    REST,
    TURN,
    TURNS,
    buffer_full,
    closed,
    not_delivered,
    open_recording,
    retry_options,
    round_error,
    settle_close,
    settle_flush,
)
from redis_counters.drivers.redis_py import AsyncioLane, Client, ask_asyncio, no_connection_left, translate
from redis_counters.errors import CounterError, Refused, Unavailable, UsageError
from redis_counters.events import EventKind, log, publish
from redis_counters.protocol.commands import Command
from redis_counters.protocol.core import Core
from redis_counters.protocol.pump import Record, Send, Steps
from redis_counters.protocol.reads import Claim, Ticket
from redis_counters.protocol.stats import Stats
from redis_counters.protocol.values import CounterValue, Name

if TYPE_CHECKING:
    from redis_counters.drivers.keyed_tasks import KeyedTasks

T = TypeVar("T")

STATS_TIMEOUT = 10.0  # seconds that stats() in another thread waits for the loop
RESTART = 0.5  # seconds until a task that was cancelled is started again: the loop may be about to end

_runners: weakref.WeakSet[TaskRunner] = weakref.WeakSet()


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
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread = threading.get_ident()  # whose increments are taken in at once: the loop's, or the maker's
        self.in_child: Callable[[], object] | None = None
        self._reset()
        self.recording = open_recording(core, lambda kinds: kinds.AsyncioRecording(core))
        self.always = core.settings.journal_always
        _runners.add(self)
        exits.close_at_exit(self, self._close_at_exit)

    def _reset(self) -> None:
        self.fetched = asyncio.Event()  # set and replaced whenever somebody's fetch is over
        self.awake = asyncio.Event()  # there is something in the buffer
        self.urgent = asyncio.Event()  # somebody waits for a flush
        self.progress = asyncio.Event()  # set and replaced whenever a round has made progress, or has failed
        self.rounding = asyncio.Lock()  # one round at a time,
        self.steps: Steps | None = None  # and this is it
        self.keyed: KeyedTasks | None = None  # made when it is needed
        self.task: asyncio.Task[None] | None = None
        self.rounds = 0
        self.refusal: Refused | None = None

    def after_fork_in_child(self) -> None:
        """The child owns nothing: what waits belongs to the parent, whose loop does not run here."""
        self.loop, self.in_child = None, None
        self._reset()
        drop_connections(self.client, of_parent=True)
        self.core.begin()
        self.breaker = Breaker(self.core)
        if self.recording is not None:
            self.recording.begin()

    # -- the loop

    def _here(self) -> None:
        """The client belongs to the running loop. Raises UsageError if it belongs to another one that may still run."""
        loop = asyncio.get_running_loop()
        if loop is self.loop:
            return
        if self.loop is not None and not self.loop.is_closed():
            raise UsageError(
                "this client belongs to another event loop, which is not closed; make one Counters per event loop"
            )
        before, self.loop, self.thread = self.loop, loop, threading.get_ident()
        if before is not None:
            if self.steps is not None:  # the loop ended in the middle of a round
                self.steps.close()
            self._reset()
            if self.recording is not None:
                self.recording.in_another_loop()
            self.core.reads.fetching.clear()
            drop_connections(self.client, of_parent=False)
        if self.in_child is None:
            self.in_child = exits.close_in_child(self._close_at_exit) or _nothing

    # -- the task

    def wake(self, name: Name, amount: int) -> bool:
        """A flush will follow within the interval. True if the amount has been counted here, with no room to spare.

        Called only when the buffer is empty.
        """
        if self.refusing:
            raise closed(name)
        if self.always:
            self._count_recorded(name, amount)
            return True
        writer = self.core.writer
        loop = self.loop
        if self.thread != threading.get_ident() and not (self._free() and _running() is not None):
            if writer.full:
                raise buffer_full(self.core, name)
            if loop is not None and not loop.is_closed():
                loop.call_soon_threadsafe(self._told)
            return False
        if (self.task is None or self.task.done() or self._free()) and not self._start():
            # Taken in here and now: a buffer that nobody empties would grow, and never be found empty again.
            self.core.count(name, amount)
            return True
        self.awake.set()
        if not writer.full:
            return False
        if self.core.squeeze(name, amount):
            return True
        if writer.full:
            raise buffer_full(self.core, name)
        return False

    def _count_recorded(self, name: Name, amount: int) -> None:
        """The amount is in the journal, and in the totals. Raises NotRecorded, Overflow, BufferFull: then it is not."""
        assert self.recording is not None
        if self._elsewhere():
            raise UsageError(f"counter {name!r} not counted: journal_mode='always' needs the thread of the event loop")
        if self.task is None or self.task.done() or self._free():
            self._start()
        self.awake.set()
        if amount:
            if self.core.writer.full and not self.core.squeezes(name, amount):
                raise buffer_full(self.core, name)
            self.recording.count(name, amount)

    def _free(self) -> bool:
        """True if the client belongs to no loop that may still run."""
        return self.loop is None or self.loop.is_closed()

    def _told(self) -> None:
        """Another thread has counted."""
        if self.task is None or self.task.done():
            self._start()
        self.awake.set()

    def _start(self) -> bool:
        """The task runs. False outside of its event loop: a later increment inside of one, or flush(), starts it."""
        loop = _running()
        if loop is None or self.stopped or not (self._free() or loop is self.loop):
            return False
        self._here()
        self.task = loop.create_task(self._run(), name="redis-counters")
        self.task.add_done_callback(self._ended)
        return True

    def _ended(self, task: asyncio.Task[None]) -> None:
        """The task was cancelled by somebody: the next increment finds the buffer empty, and starts another.

        If none comes, the loop does, unless it is at its end.
        """
        if task is not self.task or self.stopped:
            return
        self.core.writer.drain()
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_later(RESTART, self._restart, task)

    def _restart(self, ended: asyncio.Task[None]) -> None:
        if ended is self.task and not self.stopped and self._start():
            self.core.report(EventKind.FLUSHER_RESTARTED, "the task that flushes was cancelled, another one is started")
            self.publish()

    async def _run(self) -> None:
        """Work until the client is closed or this is cancelled.

        In a task of its own, because redis-py uses asyncio.wait_for, which up to Python 3.11 may lose a cancellation.
        """
        leaving: list[bool] = []
        work = asyncio.ensure_future(self._work(leaving))
        try:
            await asyncio.wait({work})
        finally:
            leaving.append(True)
            while not work.done():
                work.cancel()
                await asyncio.wait({work}, timeout=REST)
        work.result()

    async def _work(self, leaving: list[bool]) -> None:
        while not self.stopped and not leaving:
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
            if self.recording is not None:
                await self.recording.own()
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
            if isinstance(ours, Unavailable) and ours is not error:  # not what Redis answers
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
        recording = self.recording
        if recording is not None:
            await recording.seek()
            self.core.writer.absorb()
            await recording.own()
        steps = self.steps = self.core.round()
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
                    elif isinstance(step, Record):
                        answer = recording is not None and await recording.record(step.recorder)
                    else:
                        answer = await lane.receive()
                        self._progressed()
        finally:
            ticker.cancel()
            steps.close()
            self.steps = None
        if recording is not None:
            await recording.tidy()
        error = round_error(self.core)
        if error is not None:
            raise error
        self.core.succeeded()
        self.breaker.succeeded()

    async def _absorb_meanwhile(self) -> None:
        while True:
            await asyncio.sleep(self.core.settings.flush_interval)
            if self.core.overdue or self.recording is not None:
                self.core.writer.absorb()
                if self.recording is not None:
                    await self.recording.own()

    def _progressed(self) -> None:
        self.progress.set()
        self.progress = asyncio.Event()

    # -- callers

    async def flush(self, timeout: float | None) -> None:
        self._here()
        limit = FLUSH_TIMEOUT if timeout is None else timeout
        if self.recording is not None:
            await self.recording.seek()  # what killed processes left belongs to all that there is
        goal = self.core.begin_flush()
        if goal is None:
            return
        if self.stopped:
            raise closed()
        await self._work_until(goal.reached, time.monotonic() + limit)
        settle_flush(self.core, goal.reached(), limit)

    async def close(self, timeout: float) -> None:
        if self.refusing:
            return
        self._here()
        writer = self.core.writer
        self.refusing = True
        self.core.begin_close()
        refusal: Refused | None = None
        try:
            deadline = time.monotonic() + timeout
            await self._work_until(lambda: writer.closed and self.core.orphans_over, deadline)
            while time.monotonic() < deadline and await self._somebody_was_late():
                await self._work_until(lambda: writer.closed, deadline)
        except Refused as error:
            refusal = error
        except BaseException:  # interrupted: it may be closed again
            self.refusing = writer.closing = False
            raise
        self.stopped = True
        writer.closing = False
        await self._end_task()
        _runners.discard(self)
        exits.forget(self)
        if self.in_child is not None:
            self.in_child()
        if self.recording is not None:
            await self.recording.close()
        try:
            settle_close(self.core, timeout, refusal)
        finally:
            self.publish()

    async def _somebody_was_late(self) -> bool:
        """Other threads have had a turn; True if one has counted that had looked before close() began to refuse."""
        for _ in range(TURNS if threading.active_count() > 1 else 0):
            await asyncio.sleep(TURN)
            if not self.core.writer.clean:
                return True
        return False

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
            if self._elsewhere():
                raise UsageError(
                    f"counter {name!r} not counted: amounts beyond 2**31 need the thread of the event loop"
                )
            self.core.add_large(name, amount)

    def _elsewhere(self) -> bool:
        """True in a thread that the loop does not run in, while it runs."""
        return self.thread != threading.get_ident() and self.loop is not None and self.loop.is_running()

    def declare(self, name: bytes, shards: int | None) -> None:
        self.core.declare(name, shards)

    # -- reading

    async def ask(self, asks: Generator[list[Command], list[object], T]) -> T:
        self._here()
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
        self._here()
        reads = self.core.reads
        failure: CounterError | None = None
        ticket = Ticket()
        try:
            claim = reads.claim(names, max_age, None, ticket)
            if claim.busy:
                claim = await self._wait_to_claim(names, max_age, ticket)
            if not claim.missing:
                return claim.values
            return claim.values | await self.ask(reads.fetch(claim.missing))
        except CounterError as error:
            failure = error
            raise
        finally:
            ticket.over = True
            if ticket.names:
                reads.release(ticket, failure)
                self.fetched.set()
                self.fetched = asyncio.Event()

    async def _wait_to_claim(self, names: Collection[bytes], max_age: float | None, ticket: Ticket) -> Claim:
        """Return a claim as soon as nobody else fetches what it lacks. Raises what the fetch did."""
        reads, since = self.core.reads, self.core.clock()
        while True:
            await self.fetched.wait()
            failure = reads.failure(names, since)
            if failure is not None:
                raise failure
            claim = reads.claim(names, max_age, since, ticket)
            if not claim.busy:
                return claim

    def stats(self) -> Stats:
        loop = self.loop
        if loop is None or not self._elsewhere():
            return self.core.stats()
        return asyncio.run_coroutine_threadsafe(self._stats(), loop).result(STATS_TIMEOUT)

    async def _stats(self) -> Stats:
        return self.core.stats()

    # -- the end of the process

    def _close_at_exit(self, seconds: float) -> None:
        """Close in the client's loop, if that runs in some thread, else in one of its own; what is lost is told."""
        self.core.writer.drain()
        if self.core.writer.clean:
            return
        loop = self.loop
        try:
            if loop is not None and loop.is_running():
                asyncio.run_coroutine_threadsafe(self.close(seconds), loop).result(2 * seconds)
            elif loop is not None and not loop.is_closed():
                loop.run_until_complete(self.close(seconds))
            else:
                _run_without_threads(self._close_all(seconds))
        except CounterError:
            pass  # the loss was told by close
        except Exception as error:
            not_delivered(self.core, f"and the client was not closed ({type(error).__name__}: {error})")
            self.publish()

    async def _close_all(self, seconds: float) -> None:
        try:
            await self.close(seconds)
        finally:
            await self.client.connection_pool.disconnect()


def _nothing() -> None:
    pass


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _run_without_threads(work: Coroutine[Any, Any, None]) -> None:
    """As asyncio.run; at exit no thread can be started, and hosts are looked up in one."""
    loop = asyncio.SelectorEventLoop()

    async def look_up(host: Any, port: Any, **options: Any) -> Any:
        return socket.getaddrinfo(host, port, **options)

    loop.getaddrinfo = look_up  # type: ignore[method-assign]
    try:
        loop.run_until_complete(work)
    finally:
        loop.close()


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


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
