"""The regions of an exchange as places to ask, and the pairs between them: what both drivers have."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.identity import default_display, mint
from redis_counters.drivers.redis_py.errors import translate
from redis_counters.drivers.urls import Opened, open_url
from redis_counters.errors import CounterError, Refused, SchemaMismatch, Unavailable, UsageError, reworded
from redis_counters.events import Event, EventKind, Observer, log, publish
from redis_counters.protocol.exchange.connect import Waiting
from redis_counters.protocol.exchange.metrics import ExchangeStats
from redis_counters.protocol.exchange.pair import Pair
from redis_counters.protocol.exchange.state import Common, Options
from redis_counters.protocol.wire.durability import Durability
from redis_counters.protocol.wire.keys import CLUSTER_BUCKETS, DEFAULT_BUCKETS
from redis_counters.protocol.wire.region_names import Link, check_links, check_name

T = TypeVar("T")

MAX_REMEMBERED = 1_000  # refusals that are not reported again
PERSISTENCE = 5  # attempts in a row that bring nothing, before `run_once` gives a pair up,
IN_VAIN = 15.0  # or so many seconds of them: each waits for an answer until that is late
MAX_PAUSE_S = 2.0  # between attempts while a region is away
CLOSED = "this exchange is closed"
NOT_GIVEN = "not among the regions of this exchange"
MOMENT = 0.02  # seconds until it is looked whether another pair is done with what this one needs, too


class RegionClient(NamedTuple, Generic[T]):
    """A region: how it is asked, and what is to be ended with the exchange, if it made the client."""

    name: str
    transport: T
    opened: Opened | None


def open_place(name: str, client: object, make: Any, *, asyncio: bool) -> RegionClient[Any]:
    """Return the place of a region, given as URL or client. Raises TypeError, UsageError."""
    check_name(name)
    try:
        if not isinstance(client, str):
            return RegionClient(name, make(client), None)
        opened = open_url(client, asyncio=asyncio)
        try:
            return RegionClient(name, make(opened.client), opened)
        except BaseException:
            opened.stop()
            raise
    except UsageError as error:
        raise UsageError(f"region {name}: {error}") from error


class RegionClients(Generic[T]):
    """All regions and pairs of one exchange."""

    def __init__(
        self,
        places: Mapping[str, RegionClient[T]],
        namespace: bytes,
        interval: float,
        durability: Durability | None,
        links: Iterable[Link] | None,
        observer: Observer | None,
    ) -> None:
        grouped = any(getattr(place.transport, "grouped", False) for place in places.values())
        buckets = CLUSTER_BUCKETS if grouped else DEFAULT_BUCKETS
        by = f"{'_'.join(default_display().split())[-40:]}:{mint()[:4]}".encode()
        options = Options(namespace, interval, durability, buckets, monotonic, random.random, mint, by)
        self.common = Common(options)
        self.places = dict(places)
        self.pairs: dict[Link, Pair] = {}
        self.observer = observer
        self.evicted: set[str] = set()  # regions that take part no more,
        self.leaving: set[str] = set()  # and those that are being evicted by this exchange
        self._reported: dict[Link, set[type]] = {}  # pairs that fail, and the kinds of errors that were reported
        self._refused: dict[str, None] = {}  # what was reported of shards that were refused
        wanted = check_links(links, self.places)
        self.common.expect(name.encode() for link in wanted for name in link)
        self.link(wanted)

    def begin(self) -> None:
        """Nothing is known of regions, and no pair is in the middle of anything: in the child of a fork."""
        self.common = Common(self.common.options)
        pairs, self.pairs, self._reported, self.leaving = self.pairs, {}, {}, set()
        self.common.expect(name.encode() for link in pairs for name in link)
        self.link(pairs)

    def links_with(self, new: Collection[str], links: Iterable[Link] | None) -> list[Link]:
        """Return the pairs that come with new regions. Raises TypeError, UsageError.

        By default every region that takes part asks them, and they ask it.
        """
        every = dict.fromkeys([*self.places, *new])
        if links is not None:
            return check_links(links, every)
        taking_part = [name for name in every if name in new or name not in self.evicted]
        return [link for link in check_links(None, taking_part) if set(link) & set(new)]

    def link(self, links: Iterable[Link], replaced: Collection[str] = ()) -> None:
        """These pairs take part, too. Those of regions that are reached in another way now begin anew."""
        pairs: dict[Link, Pair] = {}
        for link in dict.fromkeys([*self.pairs, *links]):
            before = self.pairs.get(link)
            if before is not None and not set(link) & set(replaced):
                pairs[link] = before
                continue
            source, destination = (name.encode() for name in link)
            pairs[link] = Pair(source, destination, self.common)
            if before is not None:
                pairs[link].metrics = before.metrics
        self._share_out(pairs)

    def unlink(self, name: str) -> None:
        """No pair with this region takes part any more."""
        self.evicted.add(name)
        self.common.waiting.discard(name.encode())
        self._share_out({link: pair for link, pair in self.pairs.items() if name not in link})

    def _share_out(self, pairs: dict[Link, Pair]) -> None:
        """Of the two directions between two regions one compares, for both."""
        for (source, destination), pair in pairs.items():
            pair.both = (destination, source) in pairs
            pair.compares = not pair.both or source < destination
        self.pairs = pairs  # another one: iterating over the old one is not disturbed

    def stats(self) -> ExchangeStats:
        return ExchangeStats({link: pair.stats() for link, pair in self.pairs.items()})

    def failed(self, link: Link, error: Exception) -> CounterError:
        """The pair did not get through: each kind of error is reported once, until it does. Return ours."""
        ours = error if isinstance(error, CounterError) else Unavailable(f"an error of this library: {error!r}")
        if ours is not error:
            log.error("exchange from %s to %s", *link, exc_info=error)
        pair = self.pairs.get(link)
        if pair is not None and not isinstance(ours, Waiting):
            pair.failed(ours)
            self.report(link, pair, ours)
        return ours

    def _report_lost(self, link: Link, pair: Pair) -> None:
        """Report that one of the two had less of its own counts than the other."""
        for side, name in enumerate(link):
            lost, pair.metrics.behind[side] = pair.metrics.behind[side], 0
            if lost:
                shards = f"{lost:,} shard{'s' if lost > 1 else ''}"
                message = (
                    f"region {name} had lost counts of its own, in {shards}: {link[1 - side]} gave them back. "
                    "Nothing is to be done if keys were deleted there, or after a fail-over. If it was restored from a "
                    "backup, what is counted there anew is lost, until you use redis-counters regions renew"
                )
                publish(Event(EventKind.REGION_BEHIND, message), self.observer)

    def _report_refused(self, link: Link, pair: Pair) -> None:
        """Report each shard or entry that was refused, once."""
        refusals, pair.metrics.refusals = pair.metrics.refusals, []
        for refusal in refusals:
            message = f"{link[0]} to {link[1]}: {refusal}; all else is exchanged"
            if message not in self._refused:
                self._refused[message] = None
                publish(Event(EventKind.REFUSED, message), self.observer)
        while len(self._refused) > MAX_REMEMBERED:
            del self._refused[next(iter(self._refused))]

    def report(self, link: Link, pair: Pair, error: CounterError | None) -> None:
        """Report how the last round went, if it went well again or failed in a new way; and what was lost in it.

        Nothing of a pair that takes part no more.
        """
        if self.pairs.get(link) is not pair:
            return
        self._report_lost(link, pair)
        self._report_refused(link, pair)
        if error is not None:
            before = self._reported.get(link, set())
            if type(error) in before or self.leaving & set(link):
                return
            self._reported[link] = before | {type(error)}
            event = Event(EventKind.EXCHANGE_FAILED, f"{link[0]} to {link[1]}: {error}; it is tried again")
        else:
            if self._reported.pop(link, None) is None:
                return
            event = Event(EventKind.EXCHANGE_RECOVERED, f"{link[0]} to {link[1]}")
        publish(event, self.observer)


class Attempts:
    """Of `run_once` at one pair: when it is given up. ``done``: buckets that got through, which are passed over."""

    def __init__(self) -> None:
        self.done: set[int] = set()
        self._before = 0  # buckets that were done after the attempt before
        self._in_vain = 0  # attempts in a row
        self._since = monotonic()

    def over(self, error: CounterError) -> bool:
        """Return whether the attempt that ended with this error was the last."""
        if not isinstance(error, Waiting):
            if len(self.done) > self._before:
                self._before, self._in_vain, self._since = len(self.done), 0, monotonic()
            else:
                self._in_vain += 1
        given_up = self._in_vain >= PERSISTENCE or (self._in_vain > 0 and monotonic() - self._since >= IN_VAIN)
        return given_up or isinstance(error, (Refused, UsageError))

    def pause(self) -> float:
        """Return how many seconds to wait before the next."""
        return MOMENT * 2.0**self._in_vain


def too_late(link: Link, pair: Pair) -> CounterError:
    """Return the error for a pair that `run_once` waits for no longer."""
    return Unavailable(f"{link[0]} to {link[1]}: not done in time: {pair.metrics.last_error or 'no answer'}")


def parted(link: Link) -> CounterError:
    """Return the error for a pair that takes part no more, while `run_once` works on it."""
    return Unavailable(f"{link[0]} to {link[1]}: one of the two was evicted, or added again, meanwhile; to be repeated")


def of_region(error: BaseException, name: str) -> CounterError | None:
    """Return our error for what came up when a region was asked, with its name; None if it is not ours."""
    ours = translate(error)
    if ours is None or isinstance(ours, SchemaMismatch):  # (whose text names regions)
        return ours
    named = reworded(ours, f"region {name}: {ours}")
    named.__cause__ = error
    return named
