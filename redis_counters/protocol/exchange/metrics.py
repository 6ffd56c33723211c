"""The figures of an exchange: as a directed pair counts them, and as users see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from redis_counters.protocol.exchange.asks import Meter
from redis_counters.protocol.wire.refusals import refusal

MAX_REFUSALS = 100  # that wait to be reported


class SyncMetrics:
    """Counts of one directed pair since the exchange was made. One thread writes; others may read late values."""

    def __init__(self) -> None:
        self.looks = 0  # at buckets, that went through
        self.entries = 0
        self.payload = 0  # bytes: texts of these, and their names
        self.changed = 0
        self.repaired = 0
        self.compared = 0
        self.dropped = 0
        self.refused = 0
        self.unconfirmed = 0
        self.failures = 0
        self.seconds = 0.0  # of rounds that brought something
        self.pulling = Meter()
        self.comparing = Meter()
        self.last_error: str | None = None
        # Shards of which a peer had more of a region's own counts than the region itself; source and destination.
        self.behind = [0, 0]
        self.beat: float | None = None  # when the destination got the last heartbeat, by its clock
        self.skew: float | None = None  # seconds by which the source's clock was ahead of that
        self.refusals: list[str] = []  # that were not reported yet

    def merged(self, members: Sequence[bytes], texts: Sequence[bytes], changed: int) -> None:
        self.entries += len(texts)
        self.payload += sum(map(len, members)) + sum(map(len, texts))
        self.changed += changed

    def refuse(self, shard: bytes, error: bytes) -> None:
        """One shard was refused, or one entry of it; the others go on."""
        self.refused += 1
        self.last_error = str(refusal(shard, error.decode("utf-8", "replace")))
        if len(self.refusals) < MAX_REFUSALS:
            self.refusals.append(self.last_error)

    def failed(self, error: BaseException) -> None:
        self.failures += 1
        self.last_error = str(error)


@dataclass(frozen=True, slots=True)
class PairStats:
    """Figures of one directed pair of regions since the exchange was made.

    ``lag``: seconds for which the destination may have lacked something of the source: 0 where it had all when that
    was last looked at, and the next look is not overdue; else the time since then. None before it had all once.
    ``entries``: shards of counters that were brought to the destination; ``changed``: those that changed something.
    ``repaired``: of these, shards that the comparison of whole buckets found to differ; ``compared``: shards that it
    has compared. ``dropped``: entries of deleted counters that both sides need no longer.
    ``bytes``: sent to and received from both regions, as Redis's protocol counts them (within 1 %, without TCP).
    ``bytes_per_entry``: of these, what an entry takes on its way, on average: its text and its name, without the
    commands around them. ``entries_per_second``: while it was pulling.
    ``heartbeat``: when the destination's Redis heard last that this exchange has got through, by its clock; epoch
    seconds. ``clock_skew``: seconds by which the source's clock is ahead of that one, as far as the way allows to tell.
    ``failures``: rounds, or single buckets of a round, that did not go through. ``refused``: shards that the
    destination (or the source) refused. ``unconfirmed``: times that ``durability`` was not confirmed, so that nothing
    went on. ``last_error``: of the last failure; None after a round that went through.
    """

    lag: float | None = None
    entries: int = 0
    changed: int = 0
    repaired: int = 0
    compared: int = 0
    dropped: int = 0
    bytes: int = 0
    bytes_per_entry: float | None = None
    entries_per_second: float = 0.0
    failures: int = 0
    refused: int = 0
    unconfirmed: int = 0
    heartbeat: float | None = None
    clock_skew: float | None = None
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class ExchangeStats:
    """Figures of an exchange: those of each directed pair, by (source, destination)."""

    pairs: Mapping[tuple[str, str], PairStats] = field(default_factory=dict)

    @property
    def lag(self) -> float | None:
        """The longest lag of all pairs, in seconds; None if a pair has none yet."""
        lags = [pair.lag for pair in self.pairs.values()]
        return max((lag for lag in lags if lag is not None), default=None) if None not in lags else None

    @property
    def entries(self) -> int:
        """Shards of counters brought from one region to another."""
        return sum(pair.entries for pair in self.pairs.values())

    @property
    def failures(self) -> int:
        """Rounds that did not go through."""
        return sum(pair.failures for pair in self.pairs.values())


@dataclass(frozen=True, slots=True)
class RegionStatus:
    """One region, as it says itself and as the others have it.

    ``id``: of its deployment, None if it has none yet or does not answer. ``state``: "member", "evicted", or "unknown"
    where no region has recorded it yet. ``recorded_by``: the regions that have it recorded as that. ``buckets``: of the
    namespace there. ``error``: why it does not answer, or may not take part; None if all is well.
    """

    name: str
    id: str | None
    state: str
    recorded_by: tuple[str, ...]
    buckets: int | None
    error: str | None
