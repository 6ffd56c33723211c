"""The figures of an exchange, as its users see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
    where nobody has recorded it yet. ``recorded_by``: the regions that have it recorded as that. ``buckets``: of the
    namespace there. ``error``: why it does not answer, or may not take part; None if all is well.
    """

    name: str
    id: str | None
    state: str
    recorded_by: tuple[str, ...]
    buckets: int | None
    error: str | None
