"""One directed pair of regions: its rounds. A driver lends it two connections.

The driver runs the steps of ``pair.connect()``, then those of ``pair.round()`` again and again: it sends the commands,
and hands in the answers. Between two rounds it waits ``pair.wait()`` seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from redis_counters.errors import CounterError
from redis_counters.protocol.exchange.asks import (
    DESTINATION,
    MAX_IN_FLIGHT,
    SOURCE,
    Asks,
    Job,
    Steps,
    Unjoined,
    ask,
    run,
    together,
)
from redis_counters.protocol.exchange.compare import Comparison, Schedule
from redis_counters.protocol.exchange.connect import Connecting, with_region
from redis_counters.protocol.exchange.heartbeats import pause
from redis_counters.protocol.exchange.members import Void
from redis_counters.protocol.exchange.metrics import PairStats, SyncMetrics
from redis_counters.protocol.exchange.pull import began_anew, pull
from redis_counters.protocol.exchange.repair import FIRST_PAUSE_S, tidy
from redis_counters.protocol.exchange.route import Route
from redis_counters.protocol.exchange.state import BucketSync, Common, Pace
from redis_counters.protocol.wire.registry import milliseconds_of

SLACK_S = 0.02  # by which a bucket may be early: so they stay together, and share round trips


class Pair:
    """``compares``: it compares both sides; one of the two directions of a link does that for both (``both``)."""

    def __init__(self, source: bytes, destination: bytes, common: Common) -> None:
        self.names = (source, destination)
        self.common = common
        self.compares = True
        self.both = False
        self.metrics = SyncMetrics()
        self.buckets: list[BucketSync] = []
        self.route: Route | None = None
        self.schedule = Schedule(common.options.clock(), common.options.rng())
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
        self.route = yield from Connecting(self.names, self.common).run()
        options, buckets = self.common.options, self.route.keys.buckets
        now = options.clock()
        if len(self.buckets) != buckets:
            self.buckets = [BucketSync(n, Pace(options.interval, now, options.quiet)) for n in range(buckets)]
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
        """Pull and compare what is due. `metrics` and ``error`` say what failed; it is due again later."""
        self.error = None
        began = self.common.options.clock()
        due = [bucket for bucket in self._by_age() if bucket.pace.next <= began + SLACK_S]
        yield from self._bring(due, began)
        if self.anew:  # (not before all that is in flight has come)
            self._forget(began)
        if self.compares and not self.stale:
            yield from together(self._comparisons())
        if not self.regular:  # heartbeats so far said that there would be no more
            self.regular, self.next_beat = True, began
        yield from self._beats()
        self.error = self.error or next((b.error for b in self.buckets if b.error is not None), None)
        if self.error is None and not self.stale:
            self.metrics.last_error = None

    def pull_all(self, done: set[int]) -> Steps:
        """The destination has all that the source had when this began. Buckets that get through are ``done``.

        What is done already is passed over: so it may be repeated until all are.
        """
        self.error = self.metrics.last_error = None
        began = self.common.options.clock()
        left = [bucket for bucket in self._by_age() if bucket.number not in done]
        for bucket in left:
            bucket.pace.at_once(began)
        yield from self._bring(left, began, done)
        yield from self._beats()

    def _bring(self, buckets: list[BucketSync], began: float, done: set[int] | None = None) -> Steps:
        """These buckets are pulled; those that get through are ``done``."""
        before = self.metrics.entries
        yield from together(
            Job(_noting(self._pull(each), each.number, done), self._failing(each), self.metrics.pulling)
            for each in buckets
        )
        if self.metrics.entries > before:
            self.metrics.seconds += self.common.options.clock() - began

    def compare_all(self, done: set[int]) -> Steps:
        """All that there is was compared, and repaired. ``done``: as in `pull_all`."""
        self.error = self.metrics.last_error = None
        if self.compares:
            left = [bucket.number for bucket in self.buckets if bucket.number not in done]
            yield from together(
                Job(
                    _noting(self._comparison(bucket).whole(self.metrics), bucket, done),
                    self._failed,
                    self.metrics.comparing,
                )
                for bucket in left
            )

    def _beats(self) -> Steps:
        """The destination gets a heartbeat, if this exchange has got through, and one is due."""
        now = self.common.options.clock()
        if self.error is None and not self.stale and self.next_beat <= now and not any(b.error for b in self.buckets):
            yield from together(iter([Job(self._beat(now), self._failed, self.metrics.comparing)]))

    def _beat(self, began: float) -> Asks[None]:
        options, route = self.common.options, self.route
        assert route is not None
        every = pause(len(self.buckets))
        (raw,) = yield from ask(SOURCE, route.clock())
        clock = milliseconds_of(raw)
        beat = route.beat(options.by, clock, int(every * 1000) if self.regular else 0)
        at = (yield from run(DESTINATION, beat)).number(0)
        took = options.clock() - began  # the second clock was read that much later at most
        self.metrics.beat, self.metrics.skew = at / 1000, (clock - at) / 1000 + took / 2
        self.next_beat = began + every

    def failed(self, error: CounterError) -> None:
        """A round, or connecting, has ended with this error: the marks are not known any more."""
        self.metrics.failed(error)
        for bucket in self.buckets:
            bucket.forget()

    def _by_age(self) -> list[BucketSync]:
        """Return the buckets, longest waiting first: so each gets its turn where connections break all the time."""
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
            bucket.next_drop = began + FIRST_PAUSE_S
        if bucket.floored and bucket.next_drop <= began:
            yield from tidy(route, bucket, self.metrics, began, both=self.both)

    def _failing(self, bucket: BucketSync) -> Callable[[CounterError, int], None]:
        """Return the callback for an error that the bucket fails with."""

        def failed(error: CounterError, side: int) -> None:
            options = self.common.options
            bucket.forget()
            bucket.pace.failed(options.clock(), options.rng())
            self._failed(error, side)
            bucket.error = self.error

        return failed

    def _failed(self, error: CounterError, side: int) -> None:
        """Keep this error, with the name of the region that was asked."""
        if isinstance(error, Unjoined):
            self.stale = True
            self.common.joined.clear()
        else:
            self.stale = self.stale or isinstance(error, Void)  # members are read anew
            error = with_region(error, self.names[side])
        self.metrics.failed(error)
        self.error = error

    # -- comparing

    def _suspected(self) -> list[int]:
        return [bucket for key, bucket in list(self.common.suspects) if key == self.key]

    def _comparison(self, bucket: int) -> Comparison:
        assert self.route is not None
        return Comparison(self.route, bucket, both=self.both)

    def _comparisons(self) -> Iterator[Job]:
        """A step of some buckets that may differ, at once; else one of the cycle, if it is due."""
        suspected, now = self._suspected(), self.common.options.clock()
        # Those that were begun, before others: each holds the names of all its counters.
        some = sorted(suspected, key=lambda each: each not in self.schedule.at_once)[:MAX_IN_FLIGHT]
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
        before = self.metrics.comparing.bytes
        yield from comparison.step(self.metrics)
        self.schedule.stepped(self.metrics.comparing.bytes - before, len(self.buckets), self.common.options.clock())

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


def _noting(asks: Asks[object], bucket: int, done: set[int] | None) -> Asks[None]:
    """The bucket is ``done`` when these questions are."""
    yield from asks
    if done is not None:
        done.add(bucket)
