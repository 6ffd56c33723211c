"""One directed pair of regions: what is due when, and what became of it. A driver lends it two connections.

for step in pair.connect(), then again and again pair.round(): send what it says, hand in the answers
wait pair.wait() seconds between rounds
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

from redis_counters.errors import CounterError, SchemaMismatch, Unavailable, reworded
from redis_counters.protocol.exchange.asks import (
    DESTINATION,
    SOURCE,
    WINDOW,
    Ask,
    Asks,
    Job,
    Meter,
    Steps,
    on,
    together,
)
from redis_counters.protocol.exchange.compare import Comparison, Schedule
from redis_counters.protocol.exchange.heartbeats import pause
from redis_counters.protocol.exchange.joining import join, unjoined
from redis_counters.protocol.exchange.members import Region, Void, agree, check_free, look, record, settle
from redis_counters.protocol.exchange.metrics import PairStats, SyncMetrics
from redis_counters.protocol.exchange.pull import Unjoined, began_anew, pull
from redis_counters.protocol.exchange.repair import EVERY, tidy
from redis_counters.protocol.exchange.route import Route
from redis_counters.protocol.exchange.state import BucketSync, Common, Pace
from redis_counters.protocol.wire.answers import all_answered, reply_of
from redis_counters.protocol.wire.commands import Command, Script
from redis_counters.protocol.wire.registry import milliseconds_of

T = TypeVar("T")

SLACK = 0.02  # seconds by which a bucket may be early: so they stay together, and share round trips


class Waiting(Unavailable):
    """Another pair does, or knows, what this one needs; it will be over soon."""


class Pair:
    """``compares``: it compares both sides; of the two directions of a link one does that for both (``both``)."""

    def __init__(self, source: bytes, destination: bytes, common: Common) -> None:
        self.names = (source, destination)
        self.common = common
        self.compares = True
        self.both = False
        self.metrics = SyncMetrics()
        self.buckets: list[BucketSync] = []
        self.route: Route | None = None
        self.schedule = Schedule(common.options.clock(), common.options.chance())
        self.next_check = 0.0  # of whether the destination's marks have begun anew
        self.anew = False  # they have
        self.stale = False  # what was agreed upon when connecting may not hold any more
        self.error: CounterError | None = None  # of a bucket, in the last round
        self.key = frozenset(self.names)
        self.next_beat = 0.0
        self.regular = False  # there are rounds, not only `run_once`

    # -- connecting

    def connect(self) -> Steps:
        """Both take part, under their names, and have joined; what is known of marks is forgotten.

        Raises: SchemaMismatch, Refused, Unavailable.
        """
        errors: list[CounterError] = []
        yield from together(iter([Job(self._connect(), lambda e, _: errors.append(e), self.metrics.comparing)]))
        if errors:
            raise errors[0]

    def _connect(self) -> Asks[None]:
        options, namespace = self.common.options, self.common.options.namespace
        regions: list[Region] = []
        for side, name in enumerate(self.names):
            region = yield from self._on(side, look(namespace, name))
            self.common.saw(name, region)
            regions.append(region)
        looked = tuple(regions)
        for side, region in enumerate(looked):
            if region.id is None:  # somebody may have given it one meanwhile, and told the peer, before we looked there
                regions[side] = yield from self._on(side, look(namespace, region.name))
            check_free(regions[side], looked)
        for side, region in enumerate(regions):
            if region.keys is None or region.id is None or region.name not in region.members:
                buckets = region.keys.buckets if region.keys is not None else self.common.buckets_of_new()
                if buckets is None:
                    raise Waiting("other regions have not been looked at yet, and say how many buckets there are")
                settling = settle(namespace, region.name, buckets, options.mint().encode())
                regions[side] = yield from self._on(side, settling)
        told = agree(regions[SOURCE], regions[DESTINATION])
        for side, region in enumerate(regions):
            news = told[region.name]
            if news:
                assert region.id is not None
                yield from self._on(side, record(namespace, region.name, region.id, news))
                regions[side] = region._replace(members={**region.members, **news})
        for side, region in enumerate(regions):
            yield from self._join(side, region)
        self._agreed(regions[SOURCE], regions[DESTINATION])

    def _on(self, side: int, steps: Generator[list[Command], list[object], T]) -> Asks[T]:
        """As `on`, with errors that say which region it was."""
        try:
            return (yield from on(side, steps))
        except SchemaMismatch:  # whose text names regions
            raise
        except CounterError as error:
            raise self._of_region(error, side) from error

    def _of_region(self, error: CounterError, side: int) -> CounterError:
        return reworded(error, f"region {self.names[side].decode()}: {error}")

    def _join(self, side: int, region: Region) -> Asks[None]:
        assert region.keys is not None
        assert region.id is not None
        if region.id in self.common.joined:
            return
        if self.common.joining.get(region.name, self) is not self:
            raise Waiting("another pair walks over the keys there")
        buckets = yield from self._on(side, unjoined(region.keys))
        if not buckets:
            self.common.joined.add(region.id)
            return
        if self.common.joining.setdefault(region.name, self) is not self:
            raise Waiting("another pair walks over the keys there")
        try:
            yield from self._on(side, join(region.keys, buckets, self.common.options.mint))
            self.common.joined.add(region.id)
        finally:
            del self.common.joining[region.name]

    def _agreed(self, source: Region, destination: Region) -> None:
        options, keys = self.common.options, source.keys
        assert keys is not None
        known = (list(source.members), list(destination.members))
        self.route = Route(source.name, destination.name, keys, known, options.durability)
        now = options.clock()
        if len(self.buckets) != keys.buckets:
            self.buckets = [BucketSync(n, Pace(options.interval, now, options.quiet)) for n in range(keys.buckets)]
        self._forget(now)
        self.schedule.restart()
        self.stale = False

    def _forget(self, now: float) -> None:
        """All marks are read anew, and soon."""
        self.anew = False
        for bucket in self.buckets:
            bucket.forget()
            bucket.pace.at_once(now)

    # -- rounds

    def wait(self) -> float:
        """Return in how many seconds something is due."""
        now = self.common.options.clock()
        due = min((bucket.pace.next for bucket in self.buckets), default=now)
        if self.compares:
            due = min(due, self.schedule.not_before if self._suspected() else self.schedule.next)
        return max(0.0, due - now)

    def round(self) -> Steps:
        """What is due is done. What failed is told by `metrics` and ``error``; it is due again later."""
        clock = self.common.options.clock
        self.error = None
        began, entries = clock(), self.metrics.entries
        yield from together(self._due(began))
        if self.anew:  # (not before all that is on its way has come)
            self._forget(began)
        if self.metrics.entries > entries:
            self.metrics.seconds += clock() - began
        if self.compares and not self.stale:
            yield from together(self._comparisons())
        if not self.regular:  # what was said so far is that there would be no more
            self.regular, self.next_beat = True, began
        yield from self._beats()
        self.error = self.error or next((b.error for b in self.buckets if b.error is not None), None)
        if self.error is None and not self.stale:
            self.metrics.last_error = None

    def pull_all(self, done: set[int]) -> Steps:
        """The destination has all that the source had when this began. Buckets that get through are ``done``.

        What is done already is passed over: so it may be repeated until all are.
        """
        clock = self.common.options.clock
        self.error = self.metrics.last_error = None
        began, entries = clock(), self.metrics.entries
        left = [bucket for bucket in self._by_age() if bucket.number not in done]
        for bucket in left:
            bucket.pace.at_once(began)
        yield from together(
            Job(_noting(self._pull(each), each.number, done), self._failing(each), self.metrics.pulling)
            for each in left
        )
        if self.metrics.entries > entries:
            self.metrics.seconds += clock() - began
        yield from self._beats()

    def compare_all(self, done: set[int]) -> Steps:
        """All that there is was compared, and repaired. ``done``: as in `pull_all`."""
        self.error = self.metrics.last_error = None
        if self.compares:
            left = [bucket.number for bucket in self.buckets if bucket.number not in done]
            yield from together(
                Job(_noting(self._compare(bucket), bucket, done), self._failed, self.metrics.comparing)
                for bucket in left
            )

    def _beats(self) -> Steps:
        """The destination hears that this exchange has got through, if it did, and if it is time for that."""
        now = self.common.options.clock()
        if self.error is None and not self.stale and self.next_beat <= now and not any(b.error for b in self.buckets):
            yield from together(iter([Job(self._beat(now), self._failed, self.metrics.comparing)]))

    def _beat(self, began: float) -> Asks[None]:
        options, route = self.common.options, self.route
        assert route is not None
        every = pause(len(self.buckets))
        (raw,) = all_answered((yield Ask(SOURCE, [route.clock()])))
        clock = milliseconds_of(raw)
        told = route.beat(options.by, clock, int(every * 1000) if self.regular else 0)
        (raw,) = all_answered((yield Ask(DESTINATION, [told])))
        at = reply_of(raw, Script.EXCHANGE_BEAT).number(0)
        took = options.clock() - began  # the second clock was read that much later at most
        self.metrics.beat, self.metrics.skew = at / 1000, (clock - at) / 1000 + took / 2
        self.next_beat = began + every

    def failed(self, error: CounterError) -> None:
        """A round, or connecting, has ended with this error: what is known of marks is not known any more."""
        self.metrics.failed(error)
        for bucket in self.buckets:
            bucket.forget()

    def _due(self, now: float) -> Iterator[Job]:
        for bucket in self._by_age():
            if bucket.pace.next <= now + SLACK:
                yield Job(self._pull(bucket), self._failing(bucket), self.metrics.pulling)

    def _by_age(self) -> list[BucketSync]:
        """Where connections break all the time each gets its turn: first who has waited longest."""
        return sorted(self.buckets, key=lambda each: each.caught_up or 0.0)

    def _pull(self, bucket: BucketSync) -> Asks[None]:
        clock, route = self.common.options.clock, self.route
        assert route is not None
        began = clock()
        if bucket.pace.slow and bucket.mark is not None and self.next_check <= began:
            self.next_check = began + self.common.options.quiet
            self.anew = yield from began_anew(route, bucket)
        had_none = not bucket.floored
        came = yield from pull(route, bucket, self.metrics, began)
        self.metrics.looks += 1
        bucket.error = None
        if bucket.suspect:
            bucket.suspect = False
            self.common.suspects.add((self.key, bucket.number))
        if came:
            bucket.pace.changed(began)
        else:
            bucket.pace.same(began)
        if had_none and bucket.floored:
            bucket.next_drop = began + EVERY
        if bucket.floored and bucket.next_drop <= began:
            yield from tidy(route, bucket, self.metrics, began, both=self.both)

    def _failing(self, bucket: BucketSync) -> Callable[[CounterError, int], None]:
        """Return what is called with the error that the bucket failed with."""

        def failed(error: CounterError, side: int) -> None:
            options = self.common.options
            bucket.forget()
            bucket.pace.failed(options.clock(), options.chance())
            self._failed(error, side)
            bucket.error = self.error

        return failed

    def _failed(self, error: CounterError, side: int) -> None:
        """``error`` is this one, with the name of the region that was asked."""
        if isinstance(error, Unjoined):
            self.stale = True
            self.common.joined.clear()
        else:
            self.stale = self.stale or isinstance(error, Void)  # who takes part is asked anew
            error = self._of_region(error, side)
        self.metrics.failed(error)
        self.error = error

    # -- comparing

    def _suspected(self) -> list[int]:
        return [bucket for key, bucket in list(self.common.suspects) if key == self.key]

    def _comparison(self, bucket: int) -> Comparison:
        assert self.route is not None
        return Comparison(self.route, bucket, both=self.both)

    def _compare(self, bucket: int) -> Asks[None]:
        """All of a bucket; what is known of it is forgotten with this."""
        yield from self._comparison(bucket).whole(self.metrics)

    def _comparisons(self) -> Iterator[Job]:
        """A step of some buckets that may differ, at once; else one of the cycle, if it is due."""
        suspected, now = self._suspected(), self.common.options.clock()
        # Those that were begun, before others: each holds the names of all its counters.
        some = sorted(suspected, key=lambda each: each not in self.schedule.at_once)[:WINDOW]
        for bucket in some if self.schedule.not_before <= now else ():
            comparison = self.schedule.at_once.get(bucket)
            if comparison is None:
                comparison = self.schedule.at_once[bucket] = self._comparison(bucket)
            yield Job(self._step_of(comparison, bucket), self._failed_at_once, self.metrics.comparing)
        if not suspected and self.buckets and self.schedule.next <= now:
            if self.schedule.current is None:
                self.schedule.begin(self._comparison(self.schedule.bucket), now)
            current = self.schedule.current
            assert current is not None
            yield Job(self._cycle_step(current), self._failed_cycle, self.metrics.comparing)

    def _step_of(self, comparison: Comparison, bucket: int) -> Asks[None]:
        yield from comparison.step(self.metrics)
        if comparison.done:
            self.schedule.at_once.pop(bucket, None)
            self.common.suspects.discard((self.key, bucket))

    def _cycle_step(self, comparison: Comparison) -> Asks[None]:
        meter: Meter = self.metrics.comparing
        before = meter.bytes
        yield from comparison.step(self.metrics)
        self.schedule.stepped(meter.bytes - before, len(self.buckets), self.common.options.clock())

    def _failed_at_once(self, error: CounterError, side: int) -> None:
        self._failed(error, side)
        self.schedule.failed_at_once(self.common.options.clock())

    def _failed_cycle(self, error: CounterError, side: int) -> None:
        self._failed(error, side)
        self.schedule.stepped(0, len(self.buckets), self.common.options.clock(), failed=True)

    # -- figures

    def stats(self) -> PairStats:
        """Return the figures so far."""
        metrics, now = self.metrics, self.common.options.clock()
        lags = [bucket.lag(now) for bucket in self.buckets]
        known = [lag for lag in lags if lag is not None]
        return PairStats(
            lag=max(known) if known and len(known) == len(lags) else None,
            entries=metrics.entries,
            changed=metrics.changed,
            repaired=metrics.repaired,
            compared=metrics.compared,
            dropped=metrics.dropped,
            bytes=metrics.pulling.bytes + metrics.comparing.bytes,
            bytes_per_entry=metrics.payload / metrics.entries if metrics.entries else None,
            entries_per_second=metrics.entries / metrics.seconds if metrics.seconds else 0.0,
            failures=metrics.failures,
            refused=metrics.refused,
            unconfirmed=metrics.unconfirmed,
            heartbeat=metrics.beat,
            clock_skew=metrics.skew,
            last_error=metrics.last_error,
        )


def _noting(asks: Asks[object], bucket: int, done: set[int]) -> Asks[None]:
    """The bucket is done with when this is."""
    yield from asks
    done.add(bucket)
