"""The blocking driver: a background thread flushes, callers read; one lock guards the core.

The thread is started by the first increment, also in the child of a fork, and is a daemon. Where none can be started
(at interpreter exit) or it makes no progress, callers do the work: flush(), close(), and an increment or a read now and
then.

An exception of a signal handler (Ctrl-C) may come up in the main thread anywhere. So locks are entered by ``with`` and
are those of C; `threading.Condition` and `Event` are not used (see `Bell`).
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable, Collection, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from redis_counters.drivers import exits
from redis_counters.drivers.background import HELP, Background, Bell
from redis_counters.drivers.breaker import Breaker
from redis_counters.drivers.inherited import begin_in_child
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
    open_recording,
    retry_options,
    round_error,
    settle_close,
    settle_flush,
)
from redis_counters.drivers.redis_py import BlockingLane, Client, ask, no_connection_left, translate
from redis_counters.errors import CounterError, Refused, Unavailable
from redis_counters.events import EventKind, log, publish
from redis_counters.protocol.commands import Command
from redis_counters.protocol.core import Core
from redis_counters.protocol.pump import Record, Send, Steps
from redis_counters.protocol.reads import Claim, Ticket
from redis_counters.protocol.stats import Stats
from redis_counters.protocol.values import CounterValue, Name

if TYPE_CHECKING:
    from redis_counters.drivers.keyed_threads import KeyedThreads

T = TypeVar("T")

OURS = ("redis-counters", "redis-counters-buffer")

_runners: weakref.WeakSet[ThreadRunner] = weakref.WeakSet()


class ThreadRunner:
    """Drives a core for threads."""

    def __init__(self, core: Core, client: Client) -> None:
        # Not in the thread: a fork during an import leaves the import's lock held in the child for ever. The first
        # look-up of a host needs the codec.
        import encodings.idna  # noqa: F401

        from tenacity import Retrying

        self.core = core
        self.client = client
        self.breaker = Breaker(core)
        self.always = core.settings.journal_always
        self.retrying = Retrying(sleep=self._pause, **retry_options(core))
        self.refusing = False  # close() was called: nothing more is taken in,
        self.stopped = False  # and by now it is over
        self._reset()
        self.recording = open_recording(core, lambda kinds: kinds.Recording(core, self.lock))
        _runners.add(self)
        atexit.register(self._deliver)
        exits.close_at_exit(self, self._close_at_exit)

    def _reset(self) -> None:
        self.lock = threading.RLock()
        self.readers: list[Bell] = []  # who waits until somebody's fetch is over
        self.urgent = Bell()  # somebody waits for a flush
        self.ended = Bell()  # the client was closed
        self.rounding = threading.Lock()  # one round at a time,
        self.rounder: threading.Thread | None = None  # by this thread,
        self.steps: Steps | None = None  # and this is it, if it is one of flushing
        self.in_round = False
        self.keyed: KeyedThreads | None = None  # made when it is needed
        self.rounds = 0
        self.waiters: list[tuple[Callable[[], bool], Bell]] = []  # what callers wait for
        self.refusal: Refused | None = None  # what the last round as a whole was refused for
        self.expecting = 0.0  # somebody asked: until then something may come
        self.here_at, self.here_pause = 0.0, 0.0  # when a caller may flush, if no thread does
        self.in_child: Callable[[], object] | None = None
        self.background = Background(
            self._work,
            self._absorb_meanwhile,
            bury=self._bury,
            report=self._report,
            slack=self.core.settings.flush_interval,
        )

    def _report(self, text: str) -> None:
        """The next `publish` tells of the background."""
        self.core.report(EventKind.FLUSHER_RESTARTED, text)

    def after_fork_in_child(self) -> None:
        """The child owns nothing: what waits belongs to the parent, and its locks may be held for ever."""
        self._reset()
        begin_in_child(self.client)
        self.core.begin()
        self.breaker = Breaker(self.core)
        if self.recording is not None:
            self.recording.begin(self.lock)

    # -- the end of the process

    def _deliver(self) -> None:
        """All that was counted is in Redis and folded, as by close(); but others may go on counting."""
        writer = self.core.writer
        with self.lock:
            if self.refusing:
                return
            goal = self.core.begin_flush()
            self.core.begin_close()
            accepted = writer.accepted
        try:
            self._work_until(
                lambda: writer.closed or ((goal is None or goal.reached()) and writer.accepted > accepted),
                time.monotonic() + exits.rest() / 2,  # the other half is for closing, when nobody counts any more
            )
        except CounterError:
            pass  # whoever closes is told
        finally:
            with self.lock:
                writer.closing = self.refusing

    def _close_at_exit(self, seconds: float) -> None:
        try:
            self.close(seconds)
        except CounterError as error:
            log.error("at exit: %s", error)

    # -- the thread

    def wake(self, name: Name, amount: int) -> bool:
        """A flush will follow within the interval. True if the amount has been counted here, with no room to spare.

        Called only when the buffer is empty: so it costs the usual increment nothing, and sees every one when the
        buffer is full, because then nothing is left in it.
        """
        if self.refusing:
            raise closed(name)
        if self.in_child is None:
            self._be_closed_in_child()
        if self.always:
            self._count_recorded(name, amount)
            return True
        if not self.background.ask():
            if self.core.writer.full and self._squeeze(name, amount):
                return True
            # Taken in here and now: a buffer that nobody empties would grow, and never be found empty again.
            with self.lock:
                self.core.count(name, amount)
                self.core.writer.absorb()
            self._flush_now_and_then()
            return True
        return self.core.writer.full and self._squeeze(name, amount)

    def _count_recorded(self, name: Name, amount: int) -> None:
        """The amount is in the journal, and in the totals. Raises NotRecorded, Overflow, BufferFull: then it is not."""
        assert self.recording is not None
        awake = self.background.ask()
        if amount and not (self.core.writer.full and self._squeeze(name, amount)):
            self.recording.count(name, amount)
        if not awake:
            self._absorb()
            self._flush_now_and_then()

    def _work(self) -> None:
        try:
            self._wait_and_flush()
            self.keep_house()
        except BaseException as error:  # a fault of ours, of a client, or SystemExit: who waits must not for ever
            if self.stopped:
                return
            log.exception("flushing failed unexpectedly, going on")
            if not isinstance(error, Exception):
                self._report(f"the thread that flushes was to end by {type(error).__name__}, it goes on")
                self.publish()
            self._pause(MOST_PAUSE)

    def _wait_and_flush(self) -> None:
        background = self.background
        background.beat()
        if background.asked.wait(self._patience()):
            self.expecting = time.monotonic() + IDLE_POLL
        background.beat()
        if self._nothing_to_do():
            return
        if not self._rest_or_keep_house(self.core.settings.flush_interval) and self._nothing_to_do():
            return
        self.urgent.silence()
        self.retrying(self._round_unless_stopped)

    def _patience(self) -> float:
        with self.lock:
            if not self.core.writer.clean:
                return 0.0
            longest = min(IDLE_POLL, self.core.housekeeping.wait())
        # Who counts asks first: his increment may come a little later than that.
        return min(longest, self.core.settings.flush_interval) if time.monotonic() < self.expecting else longest

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
                answers = self._exchange(commands)
            except BaseException as error:
                with self.lock:
                    housekeeping.abandoned()
                if translate(error) is None:
                    raise
            else:
                with self.lock:
                    housekeeping.answered(answers, time.monotonic() - began)
                return
        self.publish()

    def _exchange(self, commands: list[Command]) -> list[object]:
        with self.rounding:
            try:
                self._enter_round()
                with BlockingLane(self.client) as lane:
                    self.background.connecting = False
                    return lane.exchange(commands, self._meanwhile, self.core.settings.flush_interval)
            finally:
                self._leave_round()

    def _nothing_to_do(self) -> bool:
        with self.lock:
            return not self.urgent.rings() and self.core.nothing_to_do()

    def _pause(self, seconds: float) -> None:
        """Wait, unless somebody wants a flush; meanwhile the buffer must not grow with every increment."""
        end = time.monotonic() + seconds
        while (rest := end - time.monotonic()) > 0 and not self.stopped:
            self.background.beat()
            if self.urgent.wait(min(rest, self.core.settings.flush_interval)):
                # Somebody waits, but Redis is not there the sooner for being asked at once.
                time.sleep(min(rest, IMPATIENCE))
                break
            self._absorb()
            if self.recording is not None:
                self.recording.own()
        self.urgent.silence()

    def _meanwhile(self) -> None:
        """While an answer is awaited."""
        if self.stopped:  # the connection is about to be closed under us
            raise Unavailable("the client was closed while an answer was awaited")
        self.background.beat()

    def _absorb_meanwhile(self) -> None:
        """While a round takes long (redis-py may be connecting), the buffer must not grow with every increment."""
        self.background.helping.wait(IDLE_POLL)
        while self.in_round and not self.stopped:
            self.ended.wait(self.core.settings.flush_interval)
            wanted = self.core.overdue or self.recording is not None
            if self.in_round and wanted and self.lock.acquire(blocking=False):
                try:
                    self.core.writer.absorb()
                finally:
                    self.lock.release()
                if self.recording is not None:
                    self.recording.own()

    def _absorb(self) -> None:
        with self.lock:
            self.core.writer.absorb()

    def _bury(self, gone: threading.Thread) -> None:
        """What a flusher held that ended without a word (C code may end a thread) is free again."""
        if self.rounder is gone:
            steps, self.steps = self.steps, None
            self._leave_round()
            self.rounding = threading.Lock()
            with self.lock:
                if steps is not None:
                    steps.close()
                else:
                    self.core.housekeeping.abandoned()
            if self.recording is not None:
                self.recording.bury()

    def _enter_round(self) -> None:
        self.rounder = threading.current_thread()
        self.in_round = self.background.connecting = True
        self.background.helping.ring()

    def _leave_round(self) -> None:
        self.rounder = None
        self.in_round = self.background.connecting = False

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
                self._enter_round()
                self._drive_round()
            except Exception as error:
                ours = translate(error)
                with self.lock:
                    if ours is not None:
                        self.core.failed(ours)
                    if isinstance(ours, Unavailable) and ours is not error:  # not what Redis answers
                        self.breaker.failed(ours)
                    self.refusal = ours if isinstance(ours, Refused) else None
                if ours is None or ours is error:
                    raise
                raise ours from error
            finally:
                self._leave_round()
                self.rounds += 1
                self._tell_waiters(all_of_them=True)

    def _drive_round(self) -> None:
        before = self.steps
        if before is not None:  # an exception of a signal handler kept it from being closed
            with self.lock:
                before.close()
        recording = self.recording
        if recording is not None:
            recording.seek()
            self._absorb()
            recording.own()
        steps = self.steps = self.core.round()
        try:
            with BlockingLane(self.client) as lane:
                self.background.connecting = False
                answer: object = None
                while True:
                    try:
                        with self.lock:
                            step = steps.send(answer)
                            if answer is not None:
                                self._tell_waiters()
                    except StopIteration:
                        break
                    if isinstance(step, Send):
                        lane.send(step.command, step.text)
                        answer = None
                    elif isinstance(step, Record):
                        answer = recording is not None and recording.record(step.recorder)
                    else:
                        answer = lane.receive(self._meanwhile, self.core.settings.flush_interval)
        finally:
            with self.lock:
                steps.close()
        self.steps = None
        if recording is not None:
            recording.tidy()
        with self.lock:
            error = round_error(self.core)
        if error is not None:
            raise error
        with self.lock:
            self.core.succeeded()
            self.breaker.succeeded()
            self.refusal = None

    def _tell_waiters(self, *, all_of_them: bool = False) -> None:
        for done, bell in tuple(self.waiters):
            if all_of_them or done():
                bell.ring()

    # -- callers

    def flush(self, timeout: float | None) -> None:
        limit = FLUSH_TIMEOUT if timeout is None else timeout
        if self.recording is not None:
            self.recording.seek()  # what killed processes left belongs to all that there is
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
        writer = self.core.writer
        refusal: Refused | None = None
        begun = False
        try:
            with self.lock:
                if self.refusing:
                    return
                begun = True
                self.refusing = True  # first: whoever counts from now on is told, and whoever just did is drained below
                self.core.begin_close()
            deadline = time.monotonic() + timeout
            self._work_until(lambda: writer.closed and self.core.orphans_over, deadline)
            while time.monotonic() < deadline and self._somebody_was_late():
                self._work_until(lambda: writer.closed, deadline)
            self.stopped = True
        except Refused as error:
            refusal = error
            self.stopped = True
        finally:
            if begun and not self.stopped:  # interrupted: it may be closed again
                self.refusing = writer.closing = False
        writer.closing = False
        self.urgent.ring()
        self.ended.ring()
        self.background.end(REST)
        _runners.discard(self)
        atexit.unregister(self._deliver)
        exits.forget(self)
        if self.in_child is not None:
            self.in_child()
        if self.recording is not None:
            self._absorb()
            self.recording.close()
        try:
            with self.lock:
                settle_close(self.core, timeout, refusal)
        finally:
            self.publish()

    def _somebody_was_late(self) -> bool:
        """Other threads have had a turn; True if one has counted that had looked before close() began to refuse."""
        for _ in range(TURNS if threading.active_count() > 1 + len(OURS) else 0):
            time.sleep(TURN)
            if not self.core.writer.clean:
                return True
        return False

    def _work_until(self, done: Callable[[], bool], deadline: float) -> None:
        """Wait for the thread to get there; without a thread that makes progress, do it here."""
        self._be_closed_in_child()
        background, bell = self.background, Bell()
        if not background.start():
            self._work_here(done, deadline)
            return
        rounds, waiter = self.rounds, (done, bell)
        try:
            self.waiters.append(waiter)
            beats, noticed = -1, 0.0
            while True:
                with self.lock:
                    if done() or self.stopped:
                        return
                    if self.refusal is not None and self.rounds > rounds + 1:
                        raise self.refusal
                now = time.monotonic()
                if now >= deadline:
                    return
                self.urgent.ring()
                background.ask()
                if beats != background.beats:
                    beats, noticed = background.beats, now
                elif now - noticed > min(HELP, (deadline - noticed) / 2):
                    if not background.replaced() and not background.connecting:
                        break
                    noticed = now
                if background.absent:
                    break
                if self.core.writer.events and not self.rounding.locked():
                    self.publish()
                bell.wait(min(deadline - now, 0.1))
        finally:
            if waiter in self.waiters:
                self.waiters.remove(waiter)
        self._work_here(done, deadline)

    def _work_here(self, done: Callable[[], bool], deadline: float) -> None:
        pause = 0.01
        while True:
            with self.lock:
                if done() or self.stopped:
                    return
            if time.monotonic() >= deadline:
                return
            try:
                if not self.rounding.locked():
                    self.round()
                    continue
            except CounterError:
                pass
            time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(pause * 2, MOST_PAUSE)

    def _flush_now_and_then(self) -> None:
        """With no thread that does it, a caller flushes once per interval; less often while that fails."""
        if self.core.writer.events:
            self.publish()
        if not self.background.absent or self.rounding.locked():
            return
        begun = time.monotonic()
        if begun < self.here_at or self._nothing_to_do():
            return
        interval = self.core.settings.flush_interval
        self.here_at = begun + interval
        try:
            self.round()
            self.here_pause = 0.0
        except CounterError:
            now = time.monotonic()
            self.here_pause = min(max(2 * self.here_pause, interval), MOST_PAUSE)
            self.here_at = now + max(self.here_pause, now - begun)  # at most half of the time is spent on waiting

    def _be_closed_in_child(self) -> None:
        """Not at the fork itself: multiprocessing forgets what was registered with it by then."""
        if self.in_child is None:
            self.in_child = exits.close_in_child(self._close_at_exit) or _nothing

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
            self._wait_for_room()

    def _wait_for_room(self) -> None:
        if not self.background.ask() and self.background.absent:
            self._work_here(lambda: not self.core.writer.full, time.monotonic() + 0.1)
            return
        self.urgent.ring()
        waiter = (lambda: not self.core.writer.full, Bell())
        try:
            self.waiters.append(waiter)
            waiter[1].wait(0.1)
        finally:
            if waiter in self.waiters:
                self.waiters.remove(waiter)

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
        if self.background.absent:
            self._flush_now_and_then()
        failure: CounterError | None = None
        ticket = Ticket()
        try:
            with self.lock:
                claim = reads.claim(names, max_age, None, ticket)
            if claim.busy:
                claim = self._wait_to_claim(names, max_age, ticket)
            if not claim.missing:
                return claim.values
            return claim.values | self.ask(reads.fetch(claim.missing))
        except CounterError as error:
            failure = error
            raise
        finally:
            ticket.over = True
            if ticket.names:
                with self.lock:
                    reads.release(ticket, failure)
                for bell in tuple(self.readers):
                    bell.ring()

    def _wait_to_claim(self, names: Collection[bytes], max_age: float | None, ticket: Ticket) -> Claim:
        """Return a claim as soon as nobody else fetches what it lacks. Raises what the fetch did."""
        reads, since, bell = self.core.reads, self.core.clock(), Bell()
        try:
            self.readers.append(bell)
            while True:
                with self.lock:
                    failure = reads.failure(names, since)
                    if failure is not None:
                        raise failure
                    claim = reads.claim(names, max_age, since, ticket)
                if not claim.busy:
                    return claim
                bell.wait(1.0)
        finally:
            if bell in self.readers:
                self.readers.remove(bell)


def _nothing() -> None:
    pass


def _after_fork_in_child() -> None:
    for runner in list(_runners):
        runner.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
