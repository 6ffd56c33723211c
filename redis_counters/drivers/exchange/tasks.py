"""An exchange by tasks of asyncio: one for each directed pair, each with a connection to both of its regions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.deadline import Deadline
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
from redis_counters.drivers.exchange.sessions_asyncio import AwaitedSessions, OpenLane
from redis_counters.drivers.process import fork_hooks
from redis_counters.drivers.transport import AwaitedTransport
from redis_counters.errors import CounterError, Unavailable
from redis_counters.protocol.exchange.membership import Operation, catch_up
from redis_counters.protocol.exchange.pair import Pair
from redis_counters.protocol.wire.region_names import Link

T = TypeVar("T")


class TaskExchange(AwaitedSessions):
    """Drives an exchange with tasks of one event loop."""

    def __init__(self, places: RegionClients[AwaitedTransport]) -> None:
        self.places = places
        self.ended = False
        self._reset()
        fork_hooks.begin_anew(self)

    def _reset(self) -> None:
        self.running = False
        self.tasks: dict[Link, asyncio.Task[None]] = {}
        self.at_work: dict[Link, asyncio.Lock] = {}  # one works on a pair: its task, or `run_once`

    def after_fork_in_child(self) -> None:
        """The exchange goes on in the parent; here it is as new, unless it was closed."""
        self._reset()
        self.places.begin()
        for place in self.places.places.values():
            place.transport.drop_connections(of_parent=True)

    def opened(self) -> Mapping[str, RegionClient[AwaitedTransport]]:
        """Return the regions. Raises Unavailable, if the exchange is closed."""
        fork_hooks.notice()
        places = self.places.places
        if self.ended:
            raise Unavailable(CLOSED)
        return places

    def start(self) -> None:
        self.opened()
        self.running = True
        for link in self.places.pairs:
            if link not in self.tasks or self.tasks[link].done():
                name = f"redis-counters-exchange {link[0]}>{link[1]}"
                self.tasks[link] = asyncio.get_running_loop().create_task(self._run(link), name=name)

    async def close(self, timeout: float) -> None:
        fork_hooks.notice()
        self.ended = True
        tasks = [task for task in self.tasks.values() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=timeout)
        finally:  # also if the caller is cancelled: nothing else ends the connections
            places, self.places.places = self.places.places, {}
            await self.end(places.values())

    async def end(self, places: Iterable[RegionClient[AwaitedTransport]]) -> None:
        """What was made for these regions is ended."""
        for place in places:
            with suppress(Exception):
                await place.transport.end()
            if place.opened is not None:
                with suppress(Exception):
                    await place.opened.stop_all_asyncio()

    def abandon(self) -> None:
        """Nothing refers to the exchange any more: its tasks end by themselves. The garbage collector calls this."""
        self.ended = True

    # -- one pair

    async def _run(self, link: Link) -> None:
        """The task of a pair: again and again, as long as the pair takes part."""
        from tenacity import AsyncRetrying, retry_if_exception_type, stop_never, wait_random_exponential

        interval = self.places.common.options.interval
        while self.takes_part(link):
            again = AsyncRetrying(
                retry=retry_if_exception_type(CounterError),
                wait=wait_random_exponential(multiplier=interval, min=MOMENT, max=MAX_PAUSE_S),
                stop=stop_never,
                reraise=True,
            )
            await again(self.session, link)

    @property
    def closed(self) -> bool:
        return self.ended

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def busy(self, link: Link, pair: Pair) -> asyncio.Lock:  # noqa: ARG002 - threads look at the pair while they wait
        return self.at_work.setdefault(link, asyncio.Lock())

    def lane_of(self, link: Link, pair: Pair) -> OpenLane:  # noqa: ARG002 - as in threads
        return lambda transport, patient: transport.lane(patient=patient)

    # -- all pairs, once

    async def run_once(self, timeout: float | None) -> None:
        """Raises the first error of a pair that did not get through, when all others have."""
        self.opened()
        deadline = None if timeout is None else monotonic() + timeout
        errors: dict[Link, CounterError] = {}
        pairs = self.places.pairs
        for what in catch_up(list(pairs.values())):
            links = [link for link in pairs if link not in errors]
            work = (self._once_in_time(link, pairs[link], what, deadline) for link in links)
            came = zip(links, await asyncio.gather(*work), strict=True)
            errors |= {link: error for link, error in came if error is not None}
        for error in errors.values():
            raise error

    async def _once_in_time(self, link: Link, pair: Pair, what: str, deadline: float | None) -> CounterError | None:
        work = asyncio.ensure_future(self._once(link, pair, what, deadline))
        try:
            await asyncio.wait({work}, timeout=None if deadline is None else max(0.0, deadline - monotonic()))
        finally:
            if not work.done():
                work.cancel()
                await asyncio.wait({work})
        if work.cancelled():
            return too_late(link, pair)
        return work.result()

    async def _once(self, link: Link, pair: Pair, what: str, deadline: float | None) -> CounterError | None:
        """Return what a pair failed with, at last."""
        attempts = Attempts()
        while True:
            try:
                async with self.busy(link, pair):
                    failed = await self.attempt(link, pair, what, attempts.done, self.lane_of(link, pair))
                if failed is None:
                    return None
                error = failed
            except Exception as raised:
                if self.ended:  # `close` has ended the connections
                    return Unavailable(CLOSED)
                if not self.takes_part(link, pair):
                    return parted(link)
                error = self.places.failed(link, raised)
            if attempts.over(error) or (deadline is not None and monotonic() >= deadline):
                return error
            await asyncio.sleep(attempts.pause())

    # -- regions

    async def operate(self, operation: Operation[T], deadline: Deadline | None = None) -> T:
        """Ask regions as an operation wants, all at the same time; return its result.

        Without a deadline of the whole each question has its own: a walk over all keys may take long.
        """
        found: Mapping[bytes, Any] | None = None
        while True:
            try:
                plans = next(operation) if found is None else operation.send(found)
            except StopIteration as stop:
                result: T = stop.value
                return result
            answers = await asyncio.gather(
                *(self.outcome(name.decode(), plan, deadline) for name, plan in plans.items())
            )
            found = dict(zip(plans, answers, strict=True))
