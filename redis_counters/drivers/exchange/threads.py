"""An exchange by threads: one for each directed pair, each with a connection to both of its regions."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TimeoutOfFuture
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.exchange.limit import BEAT, RunLimit, seconds_until
from redis_counters.drivers.exchange.places import (
    CLOSED,
    MAX_PAUSE_S,
    MOMENT,
    Attempts,
    RegionClient,
    RegionClients,
    parted,
    too_late,
)
from redis_counters.drivers.exchange.sessions import OpenLane, Plan, Sessions
from redis_counters.drivers.process import fork_hooks
from redis_counters.drivers.transport import Meanwhile, Transport
from redis_counters.errors import CounterError, Unavailable
from redis_counters.protocol.exchange.membership import Operation, catch_up
from redis_counters.protocol.exchange.pair import Pair
from redis_counters.protocol.wire.region_names import Link

T = TypeVar("T")

MAX_THREADS = 64  # that ask regions for something at once


class Ended(Unavailable):
    """The exchange was closed, or the time is over, while an answer was awaited."""


class ThreadExchange(Sessions):
    """Drives an exchange with threads."""

    def __init__(self, places: RegionClients[Transport]) -> None:
        self.places = places
        self._reset()
        fork_hooks.begin_anew(self)

    def _reset(self) -> None:
        self.made_of = threading.Lock  # all that is made here
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.running = False
        self.threads: dict[Link, threading.Thread] = {}
        self.at_work: dict[Link, threading.Lock] = {}  # one works on a pair: its thread, or `run_once`

    def after_fork_in_child(self) -> None:
        """The exchange goes on in the parent; here it is as new, unless it was closed."""
        closed = self.ended.is_set()
        self._reset()
        if closed:
            self.ended.set()
        self.places.begin()
        for place in self.places.places.values():
            place.transport.begin_in_child()

    def opened(self) -> Mapping[str, RegionClient[Transport]]:
        """Return the regions. Raises Unavailable, if the exchange is closed."""
        fork_hooks.notice()
        if threading.Lock is not self.made_of and not self.running and not self.ended.is_set():
            self._reset()  # gevent has patched since: these would keep all greenlets waiting
        places = self.places.places
        if self.ended.is_set():
            raise Unavailable(CLOSED)
        return places

    def start(self) -> None:
        with self.lock:
            self.opened()
            self.running = True
            for link in self.places.pairs:
                if link not in self.threads or not self.threads[link].is_alive():
                    name = f"redis-counters-exchange {link[0]}>{link[1]}"
                    thread = threading.Thread(target=self._run, args=(link,), name=name, daemon=True)
                    self.threads[link] = thread
                    thread.start()

    def close(self, timeout: float) -> None:
        fork_hooks.notice()
        self.ended.set()
        deadline = monotonic() + timeout
        for thread in list(self.threads.values()):
            if thread is not threading.current_thread():
                thread.join(seconds_until(deadline))
        with self.lock:
            places, self.places.places = self.places.places, {}
        self.end(places.values())

    def end(self, places: Iterable[RegionClient[Transport]]) -> None:
        """What was made for these regions is ended."""
        for place in places:
            if place.opened is not None:
                with suppress(Exception):
                    place.opened.stop_all()

    def abandon(self) -> None:
        """Nothing refers to the exchange any more: its threads end by themselves. The garbage collector calls this."""
        if fork_hooks.begun():  # in a child it has no threads, and the event's lock may be held
            self.ended.set()

    # -- one pair

    def _run(self, link: Link) -> None:
        """The thread of a pair: again and again, as long as the pair takes part."""
        from tenacity import Retrying, retry_if_exception_type, stop_when_event_set, wait_random_exponential
        from tenacity.nap import sleep_using_event

        interval = self.places.common.options.interval
        while self.takes_part(link):
            again = Retrying(
                retry=retry_if_exception_type(CounterError),
                wait=wait_random_exponential(multiplier=interval, min=MOMENT, max=MAX_PAUSE_S),
                stop=stop_when_event_set(self.ended),
                sleep=sleep_using_event(self.ended),
                reraise=True,
            )
            with suppress(CounterError):
                again(self.session, link)

    @property
    def closed(self) -> bool:
        return self.ended.is_set()

    def pause(self, seconds: float) -> None:
        self.ended.wait(seconds)

    @contextmanager
    def busy(self, link: Link, pair: Pair, limit: RunLimit | None = None) -> Iterator[None]:
        lock = self.at_work.setdefault(link, threading.Lock())
        while not lock.acquire(timeout=BEAT):
            self._check(link, pair, limit)
        try:
            yield
        finally:
            lock.release()

    def lane_of(self, link: Link, pair: Pair, limit: RunLimit | None = None) -> OpenLane:
        meanwhile = Meanwhile(partial(self._check, link, pair, limit), BEAT)
        return lambda transport, patient: transport.lane(patient=patient, meanwhile=meanwhile)

    def _check(self, link: Link, pair: Pair, limit: RunLimit | None = None) -> None:
        """While an answer is awaited."""
        if not self.takes_part(link, pair) or (limit is not None and limit.reached()):
            raise Ended(CLOSED)

    # -- all pairs, once

    def run_once(self, timeout: float | None) -> None:
        """Raises the first error of a pair that did not get through, when all others have."""
        self.opened()
        limit = RunLimit(timeout)
        errors: dict[Link, CounterError] = {}
        pairs = self.places.pairs
        pool = ThreadPoolExecutor(MAX_THREADS, "redis-counters-exchange-once")
        try:
            for what in catch_up(list(pairs.values())):
                links = [link for link in pairs if link not in errors]
                work = {link: pool.submit(self._once, link, pairs[link], what, limit) for link in links}
                for link, future in work.items():
                    try:
                        error = future.result(limit.left())
                    except TimeoutOfFuture:  # it is connecting, which takes as long as it takes
                        error = too_late(link, pairs[link])
                    if error is not None:
                        errors[link] = error
        finally:  # an interrupted caller does not wait for them either
            limit.over = True
            pool.shutdown(wait=False, cancel_futures=True)
        for error in errors.values():
            raise error

    def _once(self, link: Link, pair: Pair, what: str, limit: RunLimit) -> CounterError | None:
        """Return what a pair failed with, at last."""
        attempts = Attempts()
        while True:
            try:
                with self.busy(link, pair, limit):
                    failed = self.attempt(link, pair, what, attempts.done, self.lane_of(link, pair, limit))
                if failed is None:
                    return None
                error = failed
            except Ended:
                if self.ended.is_set():
                    return Unavailable(CLOSED)
                return too_late(link, pair) if limit.reached() else parted(link)
            except Exception as raised:
                if self.ended.is_set():  # `close` has ended the connections
                    return Unavailable(CLOSED)
                if not self.takes_part(link, pair):
                    return parted(link)
                error = self.places.failed(link, raised)
            if attempts.over(error) or limit.reached():
                return error
            time.sleep(attempts.pause())

    # -- regions

    def operate(self, operation: Operation[T], deadline: Deadline | None = None) -> T:
        """Ask regions as an operation wants, all at the same time; return its result.

        Without a deadline of the whole each question has its own: a walk over all keys may take long.
        """
        found: Mapping[bytes, Any] | None = None
        limit = RunLimit(None)
        pool = ThreadPoolExecutor(MAX_THREADS, "redis-counters-regions")
        try:
            while True:
                try:
                    plans = next(operation) if found is None else operation.send(found)
                except StopIteration as stop:
                    result: T = stop.value
                    return result
                work = {
                    name: pool.submit(self.outcome, name.decode(), _while_wanted(plan, limit), deadline)
                    for name, plan in plans.items()
                }
                found = {name: future.result() for name, future in work.items()}
        finally:  # an interrupted caller does not wait for them: a walk over all keys may take long
            limit.over = True
            pool.shutdown(wait=False, cancel_futures=True)


def _while_wanted(plan: Plan[T], limit: RunLimit) -> Plan[T]:
    """As the plan, but it is given up when its caller was interrupted. Raises Unavailable then."""
    answers: Any = None
    try:
        while True:
            commands = plan.send(answers)
            if limit.over:
                raise Unavailable(CLOSED)
            answers = yield commands
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        plan.close()
