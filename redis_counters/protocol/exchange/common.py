"""What the pairs of one exchange tell each other. Each line may be written by any of them at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from redis_counters.protocol.exchange.members import Region
from redis_counters.protocol.exchange.pace import QUIET
from redis_counters.protocol.wire.durability import Durability

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
