"""The state of an exchange between its rounds: of each bucket of a directed pair, and of all pairs together.

All of it may be forgotten at any time. Times are those of a monotonic clock, in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from redis_counters.errors import CounterError
from redis_counters.protocol.exchange.members import Region
from redis_counters.protocol.wire.durability import Durability

QUIET_S = 10.0  # between looks at a bucket where nothing changes: a look and its answer are about 50 bytes
MAX_PAUSE_S = 2.0  # between attempts at a bucket that fails
OVERDUE_S = 1.0  # that a look may take
MAX_FLOORED = 10_000  # shards that are remembered to be cleaned up
NEW_REGION_TIMEOUT_S = 10.0  # that a new region waits for silent ones, to learn how many buckets there are


class Pace:
    """When a bucket is asked for changes: often while there are some, seldom while there are none."""

    __slots__ = ("interval", "next", "quiet", "wait")

    def __init__(self, interval: float, now: float, quiet: float = QUIET_S) -> None:
        self.interval = interval
        self.quiet = max(quiet, interval)
        self.wait = interval
        self.next = now

    @property
    def slow(self) -> bool:
        """True if the last look found nothing."""
        return self.wait > self.interval

    def changed(self, began: float) -> None:
        """The look that began then found changes."""
        self.wait = self.interval
        self.next = began + self.wait

    def same(self, began: float) -> None:
        """The look that began then found none."""
        self.wait = min(2 * self.wait, self.quiet)
        self.next = began + self.wait

    def failed(self, now: float, jitter: float) -> None:
        """A look did not go through; ``jitter`` (0 to 1) keeps exchanges apart that fail together."""
        self.wait = min(2 * self.wait, max(MAX_PAUSE_S, self.interval))
        self.next = now + self.wait * (0.5 + jitter / 2)

    def at_once(self, now: float) -> None:
        """A look is due now, as if there had been changes."""
        self.wait = self.interval
        self.next = now


@dataclass(slots=True, eq=False)
class BucketSync:
    """One bucket of one directed pair."""

    number: int
    pace: Pace
    mark: bytes | None = None  # that the destination holds of the source; None if it is to be read there
    version: bytes | None = None  # of the source's last change, when nothing was left to be pulled
    error: CounterError | None = None  # that the last look failed with
    shared_until: float = 0.0  # until then another exchange may move the mark, too
    suspect: bool = False  # both sides are to be compared at once: the source is new, or a repair was void
    looked: float = 0.0  # when the mark was last read, and the source asked for changes
    caught_up: float | None = None  # as of when the destination had all
    floored: dict[bytes, int] = field(default_factory=dict)  # members with entries to be dropped; attempts so far
    next_drop: float = 0.0  # when that is tried next

    def lag(self, now: float) -> float | None:
        """Return for how long the destination may have lacked something, in seconds; None if it never had all.

        0 where it had all at the last look, and the next look is not overdue.
        """
        if self.caught_up is None:
            return None
        if self.error is None and now <= self.pace.next + OVERDUE_S:
            return 0.0
        return max(0.0, now - self.caught_up)

    def forget(self) -> None:
        """The connections are new ones: another server may answer now."""
        self.mark = self.version = None

    def noticed(self, member: bytes) -> None:
        """There are entries in this shard that count for nothing."""
        if len(self.floored) < MAX_FLOORED:
            self.floored.setdefault(member, 0)


@dataclass(slots=True)
class Options:
    """Options of an exchange. ``mint`` draws unique names; ``clock`` is monotonic; ``rng`` is from 0 to 1."""

    namespace: bytes
    interval: float
    durability: Durability | None
    default_buckets: int
    clock: Callable[[], float]
    rng: Callable[[], float]
    mint: Callable[[], str]
    by: bytes = b"-"  # name of this exchange, for people
    quiet: float = QUIET_S


@dataclass(slots=True)
class Common:
    """Shared by the pairs of one exchange. Each line may be written by any of them at any time."""

    options: Options
    waiting: set[bytes] = field(default_factory=set)  # regions that were not looked at yet,
    until: float = 0.0  # and are waited for until then
    buckets: int | None = None  # of those that were looked at
    joining: dict[bytes, tuple[bytes, bytes]] = field(
        default_factory=dict
    )  # by region, the pair that walks over its keys
    joined: set[bytes] = field(default_factory=set)  # deployments, by id, that have joined with all they have
    suspects: set[tuple[frozenset[bytes], int]] = field(default_factory=set)  # buckets of two that may differ

    def expect(self, names: Iterable[bytes]) -> None:
        """These are to be looked at before a new one gets its number of buckets."""
        self.waiting.update(names)
        self.until = self.options.clock() + NEW_REGION_TIMEOUT_S

    def saw(self, name: bytes, region: Region | None) -> None:
        """A region was looked at; None: it does not answer."""
        self.waiting.discard(name)
        if region is not None and region.keys is not None and self.buckets is None:
            self.buckets = region.keys.buckets

    def buckets_of_new(self) -> int | None:
        """Return the number of buckets for a region that has none yet; None while it is not known."""
        if self.buckets is not None:
            return self.buckets
        waited = not self.waiting or self.options.clock() >= self.until
        return self.options.default_buckets if waited else None
