"""An exchange by threads: one for each directed pair, each with a connection to both of its regions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TimeoutOfFuture
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.exchange.limit import BEAT, RunLimit, seconds_until
from redis_counters.drivers.exchange.places import (
    CLOSED,
    MOMENT,
    MOST_PAUSE,
    NOT_GIVEN,
    Attempts,
    RegionClient,
    RegionClients,
    of_region,
    parted,
    too_late,
)
from redis_counters.drivers.process import fork_hooks
from redis_counters.drivers.redis_py.errors import translate
from redis_counters.drivers.transport import Lane, Transport
from redis_counters.errors import CounterError, Unavailable
from redis_counters.protocol.exchange.asks import Send, Steps
from redis_counters.protocol.exchange.membership import Operation, catch_up
from redis_counters.protocol.exchange.pair import Pair, Waiting
from redis_counters.protocol.wire.commands import Command, NoAnswer
from redis_counters.protocol.wire.region_names import Link

T = TypeVar("T")

MOST_THREADS = 64  # that ask regions for something at once


class Ended(Exception):  # noqa: N818 - nothing went wrong
    """The exchange was closed, or the time is over, while an answer was awaited."""


class ThreadExchange:
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
        self.busy: dict[Link, threading.Lock] = {}  # who works on a pair: its thread, or `run_once`

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
        """Nobody holds the exchange any more: its threads end by themselves. The garbage collector calls this."""
        if fork_hooks.begun():  # in a child it has no threads, and the event's lock may be held
            self.ended.set()

    # -- one pair

    def _run(self, link: Link) -> None:
        """The thread of a pair: again and again, as long as the pair takes part."""
        from tenacity import Retrying, retry_if_exception_type, stop_when_event_set, wait_random_exponential
        from tenacity.nap import sleep_using_event

        interval = self.places.common.options.interval
        while self._takes_part(link):
            again = Retrying(
                retry=retry_if_exception_type(CounterError),
                wait=wait_random_exponential(multiplier=interval, min=MOMENT, max=MOST_PAUSE),
                stop=stop_when_event_set(self.ended),
                sleep=sleep_using_event(self.ended),
                reraise=True,
            )
            with suppress(Ended, CounterError):
                again(self._session, link)

    def _takes_part(self, link: Link, pair: Pair | None = None) -> bool:
        there = self.places.pairs.get(link)
        return not self.ended.is_set() and there is not None and pair in (None, there)

    def _session(self, link: Link) -> None:
        """Rounds over one pair of connections. Ends without an error, if it had got through before one came up."""
        pair = self.places.pairs.get(link)
        if pair is None:
            return
        looks = pair.metrics.looks
        meanwhile = partial(self._check, link, pair)
        try:
            with self._busy(link), self._lanes(link) as lanes:
                drive(pair.connect(), lanes, link, meanwhile)
                while self._takes_part(link, pair) and not pair.stale:
                    broken = drive(pair.round(), lanes, link, meanwhile)
                    self.places.tell(link, pair, pair.error)
                    if broken is not None:
                        raise broken
                    self._busy(link).release()
                    try:
                        self.ended.wait(pair.wait())
                    finally:
                        self._busy(link).acquire()
        except Waiting:
            self.ended.wait(MOMENT)
        except Ended:
            raise
        except Exception as error:
            if not self._takes_part(link, pair):  # `close` has ended the connections, or who replaced the region
                raise Ended from error
            ours = self.places.failed(link, error)
            if pair.metrics.looks == looks:
                raise ours from error
            self.ended.wait(max(MOMENT, self.places.common.options.interval))

    def _busy(self, link: Link) -> threading.Lock:
        return self.busy.setdefault(link, threading.Lock())

    @contextmanager
    def _busy_in_time(self, link: Link, meanwhile: Callable[[], None]) -> Iterator[None]:
        """As `_busy`, for who does not wait until whoever works on the pair has its answer."""
        busy = self._busy(link)
        while not busy.acquire(timeout=BEAT):
            meanwhile()
        try:
            yield
        finally:
            busy.release()

    def _check(self, link: Link, pair: Pair, limit: RunLimit | None = None) -> None:
        """While an answer is awaited."""
        if not self._takes_part(link, pair) or (limit is not None and limit.reached()):
            raise Ended

    def _lanes(self, link: Link) -> Lanes:
        places = self.opened()
        return Lanes([places[name] for name in link], self.places)

    # -- all pairs, once

    def run_once(self, timeout: float | None) -> None:
        """Raises the first error of a pair that did not get through, when all others have."""
        self.opened()
        limit = RunLimit(timeout)
        errors: dict[Link, CounterError] = {}
        pairs = self.places.pairs
        pool = ThreadPoolExecutor(MOST_THREADS, "redis-counters-exchange-once")
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
        finally:  # who was interrupted does not wait for them either
            limit.over = True
            pool.shutdown(wait=False, cancel_futures=True)
        for error in errors.values():
            raise error

    def _once(self, link: Link, pair: Pair, what: str, limit: RunLimit) -> CounterError | None:
        """Return what a pair failed with, at last."""
        attempts = Attempts()
        everything = pair.pull_all if what == "pull" else pair.compare_all
        while True:
            try:
                meanwhile = partial(self._check, link, pair, limit)
                with self._busy_in_time(link, meanwhile), self._lanes(link) as lanes:
                    drive(pair.connect(), lanes, link, meanwhile)
                    drive(everything(attempts.done), lanes, link, meanwhile)
                self.places.tell(link, pair, pair.error)
                if pair.error is None:
                    return None
                error: CounterError = pair.error
            except Ended:
                if self.ended.is_set():
                    return Unavailable(CLOSED)
                return too_late(link, pair) if limit.reached() else parted(link)
            except Exception as failed:
                if self.ended.is_set():  # `close` has ended the connections
                    return Unavailable(CLOSED)
                if not self._takes_part(link, pair):
                    return parted(link)
                error = self.places.failed(link, failed)
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
        pool = ThreadPoolExecutor(MOST_THREADS, "redis-counters-regions")
        try:
            while True:
                try:
                    plans = next(operation) if found is None else operation.send(found)
                except StopIteration as stop:
                    result: T = stop.value
                    return result
                work = {
                    name: pool.submit(self._ask, name.decode(), plan, limit, deadline) for name, plan in plans.items()
                }
                found = {name: future.result() for name, future in work.items()}
        finally:  # who was interrupted does not wait for them: a walk over all keys may take long
            limit.over = True
            pool.shutdown(wait=False, cancel_futures=True)

    def ask(self, name: str, plan: Generator[list[Command], list[object], T], deadline: Deadline) -> T:
        """Return what a plan comes to at a region. Raises our errors."""
        result: Any = self._ask(name, plan, RunLimit(None), deadline)
        if isinstance(result, CounterError):
            raise of_region(result, name) or result
        return result  # type: ignore[no-any-return]

    def _ask(
        self, name: str, plan: Generator[list[Command], list[object], Any], limit: RunLimit, deadline: Deadline | None
    ) -> object:
        """Return what a plan comes to at a region, or our error."""
        place = self.places.places.get(name)
        if place is None:
            return Unavailable(CLOSED if self.ended.is_set() else NOT_GIVEN)
        answers: list[object] | None = None
        try:
            while True:
                commands = next(plan) if answers is None else plan.send(answers)
                if self.ended.is_set() or limit.over:
                    return Unavailable(CLOSED)
                answers = place.transport.ask(commands, deadline)
        except StopIteration as stop:
            return stop.value
        except Exception as error:
            if self.ended.is_set():  # `close` has ended the connections
                return Unavailable(CLOSED)
            ours = translate(error)
            if ours is None:
                raise
            return ours
        finally:
            plan.close()
            if self.ended.is_set():  # the client may have connected again meanwhile
                self.end([place])


class Lanes:
    """A connection to each of two regions, open as long as it is entered."""

    def __init__(self, places: Sequence[RegionClient[Transport]], all_places: RegionClients[Transport]) -> None:
        self._two = places
        self._places = all_places
        self._stack = ExitStack()

    def __enter__(self) -> list[Lane]:
        lanes: list[Lane] = []
        try:
            for place in self._two:
                try:
                    lane = place.transport.lane(patient=not lanes)
                    lanes.append(self._stack.enter_context(lane))
                except Exception as error:
                    self._places.common.saw(place.name.encode(), None)
                    ours = of_region(error, place.name)
                    raise (ours or error) from error
        except BaseException:
            self._stack.close()
            raise
        return lanes

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)


def drive(steps: Steps, lanes: Sequence[Lane], link: Link, meanwhile: Callable[[], None]) -> CounterError | None:
    """Do what the steps say, over these lanes. Raises our errors, with the name of the region.

    Returns why some had no answer: one server of a cluster has broken off, and is not asked any more in this lane.
    """
    answer: object = None
    broken: CounterError | None = None
    side = 0
    try:
        while True:
            try:
                step = steps.send(answer)
            except StopIteration:
                return broken
            side = step.side
            if isinstance(step, Send):
                lanes[side].send(step.command, step.text)
                answer = None
            else:
                answer = lanes[side].receive(meanwhile, BEAT)
                if isinstance(answer, NoAnswer):
                    broken = of_region(answer.error, link[side])
    except (CounterError, Ended):
        raise
    except Exception as error:
        ours = of_region(error, link[side])
        raise (ours or error) from error
    finally:
        steps.close()
