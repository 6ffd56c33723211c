"""What is known of one bucket of one directed pair, between two looks at it. All of it may be forgotten at any time.

When a bucket is asked for changes: often while there are some, seldom while there are none.

What the pairs of one exchange tell each other. Each line may be written by any of them at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from redis_counters.errors import CounterError
from redis_counters.protocol.exchange.members import Region
from redis_counters.protocol.wire.durability import Durability

QUIET = 10.0  # seconds between looks at a bucket where nothing changes: a look and its answer are about 50 bytes
MOST_PAUSE = 2.0  # seconds between attempts at a bucket that fails


class Pace:
    """Of one bucket. Times are those of a clock that only runs forward, in seconds."""

    __slots__ = ("interval", "next", "quiet", "wait")

    def __init__(self, interval: float, now: float, quiet: float = QUIET) -> None:
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
        """It found none."""
        self.wait = min(2 * self.wait, self.quiet)
        self.next = began + self.wait

    def failed(self, now: float, chance: float) -> None:
        """It did not go through; ``chance`` (0 to 1) keeps exchanges apart that fail together."""
        self.wait = min(2 * self.wait, max(MOST_PAUSE, self.interval))
        self.next = now + self.wait * (0.5 + chance / 2)

    def at_once(self, now: float) -> None:
        """It is due now, and looked at as if there had been changes."""
        self.wait = self.interval
        self.next = now


OVERDUE = 1.0  # seconds that a look may take
MOST_FLOORED = 10_000  # shards that are remembered to be cleaned up


class BucketSync:
    """``mark``: what the destination holds of the source; None if it is to be read there."""

    __slots__ = (
        "caught_up",
        "error",
        "floored",
        "looked",
        "mark",
        "next_drop",
        "number",
        "pace",
        "shared_until",
        "suspect",
        "version",
    )

    def __init__(self, number: int, pace: Pace) -> None:
        self.number = number
        self.pace = pace
        self.mark: bytes | None = None
        self.version: bytes | None = None  # of the source's last change, when nothing was left to be pulled
        self.error: CounterError | None = None  # that the last look failed with
        self.shared_until = 0.0  # when it is believed again that no other exchange moves the mark
        self.suspect = False  # both sides are to be compared at once: the source is new, or a repair was void
        self.looked = 0.0  # when the mark was last read, and the source asked in earnest
        self.caught_up: float | None = None  # as of when the destination had all
        self.floored: dict[bytes, int] = {}  # members with entries that count for nothing; how often they were tried
        self.next_drop = 0.0  # when that is tried next

    def lag(self, now: float) -> float | None:
        """Return for how long the destination may have lacked something, in seconds; None if it never had all.

        Where it had all when it was last looked, and the next look is not overdue, nothing is known to be lacking.
        """
        if self.caught_up is None:
            return None
        if self.error is None and now <= self.pace.next + OVERDUE:
            return 0.0
        return max(0.0, now - self.caught_up)

    def forget(self) -> None:
        """The connections are new ones: another server may answer now."""
        self.mark = self.version = None

    def noticed(self, member: bytes) -> None:
        """There are entries in this shard that count for nothing."""
        if len(self.floored) < MOST_FLOORED:
            self.floored.setdefault(member, 0)


PATIENCE = 10.0  # seconds that a new region waits for others that do not answer, to learn how many buckets there are


@dataclass(slots=True)
class Options:
    """Of an exchange. ``mint`` draws names that nobody has; ``clock`` only runs forward; ``chance`` is from 0 to 1."""

    namespace: bytes
    interval: float
    durability: Durability | None
    default_buckets: int
    clock: Callable[[], float]
    chance: Callable[[], float]
    mint: Callable[[], str]
    by: bytes = b"-"  # name of this exchange, for people
    quiet: float = QUIET


@dataclass(slots=True)
class Common:
    """What is known of regions, and of pairs of them."""

    options: Options
    waiting: set[bytes] = field(default_factory=set)  # regions that nobody has looked at yet,
    until: float = 0.0  # and that are not waited for any longer then
    buckets: int | None = None  # of those that were looked at
    joining: dict[bytes, object] = field(default_factory=dict)  # who walks over the keys of a region
    joined: set[bytes] = field(default_factory=set)  # deployments, by id, that have joined with all they have
    suspects: set[tuple[frozenset[bytes], int]] = field(default_factory=set)  # buckets of two that may differ

    def expect(self, names: Iterable[bytes]) -> None:
        """These are to be looked at before a new one gets its number of buckets."""
        self.waiting.update(names)
        self.until = self.options.clock() + PATIENCE

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
