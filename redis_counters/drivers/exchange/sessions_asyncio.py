"""The sessions of an exchange, awaited: rounds of a pair of regions over a connection to each, and questions to one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, TypeVar

from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.exchange.places import (
    CLOSED,
    MOMENT,
    NOT_GIVEN,
    RegionClient,
    RegionClients,
    of_region,
)
from redis_counters.drivers.redis_py.errors import translate
from redis_counters.drivers.transport import AwaitedLane, AwaitedTransport
from redis_counters.errors import CounterError, Unavailable
from redis_counters.protocol.exchange.asks import Send, Steps
from redis_counters.protocol.exchange.connect import Waiting
from redis_counters.protocol.exchange.pair import Pair
from redis_counters.protocol.exchange.state import Common
from redis_counters.protocol.wire.commands import Command, NoAnswer
from redis_counters.protocol.wire.region_names import Link

T = TypeVar("T")

Plan = Generator[list[Command], list[object], T]
OpenLane = Callable[[AwaitedTransport, bool], AbstractAsyncContextManager[AwaitedLane]]


class AwaitedSessions(ABC):
    """A session of each pair, and questions to single regions; the exchange of each face says how it waits."""

    places: RegionClients[AwaitedTransport]

    @property
    @abstractmethod
    def closed(self) -> bool: ...

    @abstractmethod
    def opened(self) -> Mapping[str, RegionClient[AwaitedTransport]]:
        """Return the regions. Raises Unavailable, if the exchange is closed."""

    @abstractmethod
    async def pause(self, seconds: float) -> None:
        """Wait so long, or until the exchange is closed."""

    @abstractmethod
    def busy(self, link: Link, pair: Pair) -> AbstractAsyncContextManager[object]:
        """Only one works on a pair: its session, or `run_once`."""

    @abstractmethod
    def lane_of(self, link: Link, pair: Pair) -> OpenLane:
        """Return how a lane to a region of the pair is opened."""

    @abstractmethod
    async def end(self, places: Iterable[RegionClient[AwaitedTransport]]) -> None:
        """What was made for these regions is ended."""

    def takes_part(self, link: Link, pair: Pair | None = None) -> bool:
        there = self.places.pairs.get(link)
        return not self.closed and there is not None and pair in (None, there)

    async def session(self, link: Link) -> None:
        """Rounds over one pair of connections. Ends without an error, if it had got through before one came up."""
        pair = self.places.pairs.get(link)
        if pair is None:
            return
        looks = pair.metrics.looks
        places: dict[str, RegionClient[AwaitedTransport]] = {}
        try:
            places |= {name: self.places.places[name] for name in link}
            async with Lanes([*places.values()], self.places.common, self.lane_of(link, pair)) as lanes:
                async with self.busy(link, pair):
                    await drive(pair.connect(), lanes, link)
                while self.takes_part(link, pair) and not pair.stale:
                    async with self.busy(link, pair):
                        broken = await drive(pair.round(), lanes, link)
                    self.places.report(link, pair, pair.error)
                    if broken is not None:
                        raise broken
                    await self.pause(pair.wait())
        except Waiting:
            await self.pause(MOMENT)
        except Exception as error:
            if not self.takes_part(link, pair):  # `close` has ended the connections, or the region was replaced
                return
            ours = self.places.failed(link, error)
            if pair.metrics.looks == looks:
                raise ours from error
            await self.pause(max(MOMENT, self.places.common.options.interval))
        finally:  # what was replaced meanwhile was ended before this gave its connection back, or had one
            await self.end([place for name, place in places.items() if self.places.places.get(name) is not place])

    async def attempt(
        self, link: Link, pair: Pair, what: str, done: set[int], lane_of: OpenLane
    ) -> CounterError | None:
        """Bring all that there is across, over connections of its own; return what a part of it failed with.

        ``done``: buckets that got through, which are passed over. The caller keeps others from the pair.
        """
        places = self.opened()
        everything = pair.pull_all if what == "pull" else pair.compare_all
        async with Lanes([places[name] for name in link], self.places.common, lane_of) as lanes:
            await drive(pair.connect(), lanes, link)
            await drive(everything(done), lanes, link)
        self.places.report(link, pair, pair.error)
        return pair.error

    async def ask(self, name: str, plan: Plan[T], deadline: Deadline) -> T:
        """Return what a plan comes to at a region. Raises our errors."""
        result: Any = await self.outcome(name, plan, deadline)
        if isinstance(result, CounterError):
            raise of_region(result, name) or result
        return result  # type: ignore[no-any-return]

    async def outcome(self, name: str, plan: Plan[Any], deadline: Deadline | None) -> object:
        """Return what a plan comes to at a region, or our error."""
        place = self.places.places.get(name)
        if place is None:
            return Unavailable(CLOSED if self.closed else NOT_GIVEN)
        answers: list[object] | None = None
        try:
            while True:
                try:
                    commands = next(plan) if answers is None else plan.send(answers)
                except StopIteration as stop:
                    return stop.value
                if self.closed:
                    return Unavailable(CLOSED)
                answers = await place.transport.ask(commands, deadline)
        except Exception as error:
            if self.closed:  # `close` has ended the connections
                return Unavailable(CLOSED)
            ours = translate(error)
            if ours is None:
                raise
            return ours
        finally:
            plan.close()
            if self.closed:  # the client may have connected again meanwhile
                await self.end([place])


class Lanes:
    """A connection to each of two regions, open as long as it is entered."""

    def __init__(self, two: Sequence[RegionClient[AwaitedTransport]], common: Common, open_lane: OpenLane) -> None:
        self._two = two
        self._common = common
        self._open = open_lane
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> list[AwaitedLane]:
        lanes: list[AwaitedLane] = []
        try:
            for place in self._two:
                try:
                    lane = self._open(place.transport, not lanes)
                    lanes.append(await self._stack.enter_async_context(lane))
                except Exception as error:
                    self._common.saw(place.name.encode(), None)
                    ours = of_region(error, place.name)
                    raise (ours or error) from error
        except BaseException:
            await self._stack.aclose()
            raise
        return lanes

    async def __aexit__(self, *error: Any) -> None:
        await self._stack.__aexit__(*error)


async def drive(steps: Steps, lanes: Sequence[AwaitedLane], link: Link) -> CounterError | None:
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
                await lanes[side].send(step.command, step.text)
                answer = None
            else:
                answer = await lanes[side].receive()
                if isinstance(answer, NoAnswer):
                    broken = of_region(answer.error, link[side])
    except CounterError:
        raise
    except Exception as error:
        ours = of_region(error, link[side])
        raise (ours or error) from error
    finally:
        steps.close()
