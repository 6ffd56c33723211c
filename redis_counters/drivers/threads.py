"""The blocking driver: a background thread flushes, callers read; one lock guards the core.

The thread is started by the first increment, also in the child of a fork, and is a daemon. Where none can be started
(at interpreter exit), the caller of flush() or close() does the work itself.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
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
    retry_options,
    round_error,
    settle_close,
    settle_flush,
)
from redis_counters.drivers.redis_py import BlockingLane, Client, ask, no_connection_left, renew_locks, translate
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

_runners: weakref.WeakSet[ThreadRunner] = weakref.WeakSet()


class ThreadRunner:
    """Drives a core for threads."""

    def __init__(self, core: Core, client: Client) -> None:
        from tenacity import Retrying  # not in the thread: a fork during an import leaves its lock held in the child

        self.core = core
        self.client = client
        self.breaker = Breaker(core)
        self.retrying = Retrying(sleep=self._pause, **retry_options(core))
        self.refusing = False  # close() was called: nothing more is taken in,
        self.stopped = False  # and by now it is over
        self._reset()
        _runners.add(self)
        # Of this runner's own: what was started for it before (an embedded server) is ended after it.
        atexit.register(self._at_exit)

    def _reset(self) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)  # a round has made progress, or has failed
        self.fetched = threading.Condition(self.lock)  # somebody's fetch is over
        self.readers_waiting = 0  # how many wait for `fetched`
        self.awake = threading.Event()  # there is something in the buffer
        self.ended = threading.Event()  # the client was closed, both threads may end
        self.in_round = threading.Event()  # commands are on their way, or redis-py is connecting
        self.urgent = threading.Event()  # somebody waits for a flush
        self.rounding = threading.Lock()  # one round at a time
        self.thread: threading.Thread | None = None
        self.helper: threading.Thread | None = None
        self.rounds = 0
        self.waiters: list[Callable[[], bool]] = []  # what callers of flush() and close() wait for
        self.refusal: Refused | None = None  # what the last round as a whole was refused for

    def _at_exit(self) -> None:
        try:
            self.close(5.0)
        except CounterError as error:
            log.error("at exit: %s", error)

    def after_fork_in_child(self) -> None:
        """The child owns nothing: what waits belongs to the parent, and its locks may be held for ever."""
        self._reset()
        renew_locks(self.client)
        self.core.begin()

    # -- the thread

    def wake(self, name: Name, amount: int) -> bool:
        """A flush will follow within the interval. True if the amount has been counted here, with no room to spare.

        Called only when the buffer is empty: so it costs the usual increment nothing, and sees every one when the
        buffer is full, because then nothing is left in it.
        """
        if self.refusing:
            raise closed(name)
        if not _alive(self.thread) and not self._start():
            # Taken in here and now: a buffer that nobody empties would grow, and never be found empty again.
            with self.lock:
                self.core.count(name, amount)
            return True
        if not self.awake.is_set():
            self.awake.set()
        return self.core.writer.full and self._squeeze(name, amount)

    def _start(self) -> bool:
        """The threads run. False if the first of them cannot: there is none to be had, or the interpreter is ending."""
        with self.lock:
            if self.stopped:
                return False
            self.thread = self.thread if _alive(self.thread) else _started(self._run, "redis-counters")
            if self.thread is not None and not _alive(self.helper):
                self.helper = _started(self._absorb_meanwhile, "redis-counters-buffer")
            return self.thread is not None

    def _run(self) -> None:
        while not self.stopped:
            try:
                self._wait_and_flush()
                self.keep_house()
            except Exception:  # a fault of ours, or of a client: what waits must not wait for ever because of it
                if not self.stopped:
                    log.exception("flushing failed unexpectedly, going on")
                    self._pause(MOST_PAUSE)

    def _wait_and_flush(self) -> None:
        self.awake.wait(self._patience())
        self.awake.clear()
        if self._nothing_to_do():
            return
        if not self._rest_or_keep_house(self.core.settings.flush_interval) and self._nothing_to_do():
            return
        self.urgent.clear()
        self.retrying(self._round_unless_stopped)

    def _patience(self) -> float:
        with self.lock:
            if not self.core.writer.clean:
                return 0.0
            return min(IDLE_POLL, self.core.housekeeping.wait())

    def _rest_or_keep_house(self, seconds: float) -> bool:
        """Return whether somebody wants a flush before that time is over; meanwhile the janitor goes on."""
        end = time.monotonic() + seconds
        while (rest := end - time.monotonic()) > 0 and not self.stopped:
            with self.lock:
                pause = self.core.housekeeping.wait()
            if self.urgent.wait(min(rest, pause)):
                return True
            if pause < rest:
                self.keep_house()
        return False

    def keep_house(self) -> None:
        """The janitor has made a step, if it was time for one. Whatever stops it stops it until its next pass."""
        housekeeping = self.core.housekeeping
        with self.lock:
            if housekeeping.wait() > 0:
                return
            commands = housekeeping.commands()
        if commands is not None:
            began = time.monotonic()
            try:
                with self.rounding:
                    self.in_round.set()
                    with BlockingLane(self.client) as lane:
                        answers = lane.exchange(commands, self._check_stopped, self.core.settings.flush_interval)
            except Exception as error:
                with self.lock:
                    housekeeping.abandoned()
                if translate(error) is None:
                    raise
            else:
                with self.lock:
                    housekeeping.answered(answers, time.monotonic() - began)
                return
            finally:
                self.in_round.clear()
        self.publish()

    def _nothing_to_do(self) -> bool:
        with self.lock:
            return not self.urgent.is_set() and self.core.nothing_to_do()

    def _pause(self, seconds: float) -> None:
        """Wait, unless somebody wants a flush; meanwhile the buffer must not grow with every increment."""
        end = time.monotonic() + seconds
        while (rest := end - time.monotonic()) > 0 and not self.stopped:
            if self.urgent.wait(min(rest, self.core.settings.flush_interval)):
                time.sleep(
                    min(rest, IMPATIENCE)
                )  # somebody waits, but Redis is not there the sooner for being asked at once
                break
            self._absorb()
        self.urgent.clear()

    def _check_stopped(self) -> None:
        if self.stopped:  # the connection is about to be closed under us
            raise Unavailable("the client was closed while an answer was awaited")

    def _absorb_meanwhile(self) -> None:
        """While a round takes long (redis-py may be connecting), the buffer must not grow with every increment."""
        while not self.stopped:
            if self.in_round.wait(IDLE_POLL) and not self.stopped:
                self.ended.wait(self.core.settings.flush_interval)
                if self.in_round.is_set() and self.core.overdue and self.lock.acquire(blocking=False):
                    try:
                        self.core.writer.absorb()
                    finally:
                        self.lock.release()

    def _absorb(self) -> None:
        with self.lock:
            self.core.writer.absorb()

    def _round_unless_stopped(self) -> None:
        """A round that fails after some progress is followed by the next at once: only a standstill has to wait."""
        while not self.stopped:
            flushes = self.core.writer.flushes
            try:
                self.round()
                return
            except Unavailable:
                if self.core.writer.flushes == flushes:
                    raise

    def publish(self) -> None:
        """What has happened is in the log and with the observer, outside of all locks: it may read counters."""
        with self.lock:
            events = self.core.take_events()
        for event in events:
            publish(event, self.core.observer)

    def round(self) -> None:
        """Everything that could be sent was sent, and answered. Raises Unavailable, Refused; nothing is lost by it."""
        try:
            self._round()
        finally:
            self.publish()

    def _round(self) -> None:
        with self.rounding:
            try:
                self.in_round.set()
                self._drive_round()
            except Exception as error:
                ours = translate(error)
                with self.changed:
                    if ours is not None:
                        self.core.failed(ours)
                    if isinstance(ours, Unavailable) and not isinstance(ours, Unconfirmed):
                        self.breaker.failed(ours)
                    self.refusal = ours if isinstance(ours, Refused) else None
                    self.rounds += 1
                    self.changed.notify_all()
                if ours is None or ours is error:
                    raise
                raise ours from error
            finally:
                self.in_round.clear()

    def _drive_round(self) -> None:
        steps = self.core.round()
        try:
            with BlockingLane(self.client) as lane:
                answer: object = None
                while True:
                    try:
                        with self.changed:
                            step = steps.send(answer)
                            if answer is not None and any(done() for done in self.waiters):
                                self.changed.notify_all()
                    except StopIteration:
                        break
                    if isinstance(step, Send):
                        lane.send(step.command, step.text)
                        answer = None
                    else:
                        answer = lane.receive(self._check_stopped, self.core.settings.flush_interval)
        finally:
            with self.lock:
                steps.close()
        with self.lock:
            error = round_error(self.core)
        if error is not None:
            raise error
        with self.changed:
            self.core.succeeded()
            self.breaker.succeeded()
            self.refusal = None
            self.rounds += 1
            self.changed.notify_all()

    # -- callers

    def flush(self, timeout: float | None) -> None:
        limit = FLUSH_TIMEOUT if timeout is None else timeout
        with self.lock:
            goal = self.core.begin_flush()
            if goal is None:
                return
            if self.stopped:
                raise closed()
        self._work_until(goal.reached, time.monotonic() + limit)
        with self.lock:
            settle_flush(self.core, goal.reached(), limit)

    def close(self, timeout: float) -> None:
        with self.lock:
            writer = self.core.writer
            if self.refusing:
                return
            self.refusing = True  # first: whoever counts from now on is told, and whoever just did is drained below
            self.core.begin_close()
        refusal: Refused | None = None
        try:
            self._work_until(lambda: writer.closed, time.monotonic() + timeout)
        except Refused as error:
            refusal = error
        except BaseException:  # interrupted: it may be closed again
            with self.lock:
                self.refusing = writer.closing = False
            raise
        with self.lock:
            self.stopped = True
            writer.closing = False
        self.awake.set()
        self.urgent.set()
        self.in_round.set()
        self.ended.set()
        for thread in (self.thread, self.helper):
            if thread is not None and thread is not threading.current_thread():
                thread.join(REST)
        _runners.discard(self)
        atexit.unregister(self._at_exit)
        try:
            with self.lock:
                settle_close(self.core, timeout, refusal)
        finally:
            self.publish()

    def _work_until(self, done: Callable[[], bool], deadline: float) -> None:
        """Wait for the thread to get there; without a thread, do it here."""
        if not self._start():
            self._work_here(done, deadline)
            return
        with self.changed:
            rounds = self.rounds
            self.waiters.append(done)
            try:
                while not done() and not self.stopped:
                    if self.refusal is not None and self.rounds > rounds + 1:
                        raise self.refusal
                    self.urgent.set()
                    self.awake.set()
                    rest = deadline - time.monotonic()
                    if rest <= 0:
                        return
                    self.changed.wait(min(rest, 0.1))
            finally:
                self.waiters.remove(done)

    def _work_here(self, done: Callable[[], bool], deadline: float) -> None:
        pause = 0.01
        while time.monotonic() < deadline:
            with self.lock:
                if done():
                    return
            try:
                self.round()
            except CounterError:
                time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
                pause = min(pause * 2, MOST_PAUSE)

    def _squeeze(self, name: Name, amount: int) -> bool:
        """The amount is counted (True), or may go into the buffer. Raises BufferFull where the option says so."""
        while True:
            if self.refusing:
                raise closed(name)
            with self.lock:
                if self.core.squeeze(name, amount):
                    return True
                if not self.core.writer.full:
                    return False
            if not self.core.settings.block_when_full:
                raise buffer_full(self.core, name)
            self.urgent.set()
            with self.changed:
                self.changed.wait(0.1)

    def add(self, name: Name, amount: int) -> None:
        if not self.core.add(name, amount):
            with self.lock:
                self.core.add_large(name, amount)

    def declare(self, name: bytes, shards: int | None) -> None:
        with self.lock:
            self.core.declare(name, shards)

    def stats(self) -> Stats:
        with self.lock:
            return self.core.stats()

    # -- reading

    def ask(self, asks: Generator[list[Command], list[object], T]) -> T:
        """Drive a generator of questions; a caller's thread does it, with the client's own retries."""
        answers: Any = None
        while True:
            try:
                with self.lock:
                    commands = asks.send(answers)
            except StopIteration as stop:
                result: T = stop.value
                return result
            answers = self._ask(commands)

    def _ask(self, commands: list[Command]) -> list[object]:
        self.breaker.check()
        try:
            answers = self._ask_patiently(commands)
        except Unavailable as error:
            if self.breaker.failed(error):
                self.publish()
            raise
        if self.breaker.succeeded():
            self.publish()
        return answers

    def _ask_patiently(self, commands: list[Command]) -> list[object]:
        try:
            return ask(self.client, commands)
        except Unavailable as error:
            if not no_connection_left(error):
                raise
            with self.rounding:  # a round may have the only connection; between rounds it is free
                return ask(self.client, commands)

    def read(self, names: Collection[bytes], max_age: float | None) -> dict[bytes, CounterValue]:
        """Return values by name; from the cache where it is fresh enough, else from Redis in one round trip."""
        reads = self.core.reads
        with self.lock:
            claim = reads.claim(names, max_age, None)
            if claim.busy:
                claim = self._wait_to_claim(names, max_age)
        if not claim.missing:
            return claim.values
        failure: CounterError | None = None
        try:
            return claim.values | self.ask(reads.fetch(claim.missing))
        except CounterError as error:
            failure = error
            raise
        finally:
            with self.lock:
                reads.release(claim.missing, failure)
                if self.readers_waiting:
                    self.fetched.notify_all()

    def _wait_to_claim(self, names: Collection[bytes], max_age: float | None) -> Claim:
        """Return a claim as soon as nobody else fetches what it lacks; the lock is held. Raises what the fetch did."""
        reads, since = self.core.reads, self.core.clock()
        self.readers_waiting += 1
        try:
            while True:
                self.fetched.wait()
                failure = reads.failure(names, since)
                if failure is not None:
                    raise failure
                claim = reads.claim(names, max_age, since)
                if not claim.busy:
                    return claim
        finally:
            self.readers_waiting -= 1


def _alive(thread: threading.Thread | None) -> bool:
    return thread is not None and thread.is_alive()


def _started(target: Callable[[], None], name: str) -> threading.Thread | None:
    """Return a new thread that runs, None if none can be started."""
    thread = threading.Thread(target=target, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread


def _after_fork_in_child() -> None:
    for runner in list(_runners):
        runner.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
