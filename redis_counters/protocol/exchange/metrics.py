"""What one directed pair has done so far."""

from __future__ import annotations

from collections.abc import Sequence

from redis_counters.protocol.exchange.asks import Meter
from redis_counters.protocol.wire.refusals import refusal

MOST_REFUSALS = 100  # that wait to be told of


class SyncMetrics:
    """Counts since the exchange was made; one writer, and readers who may be a little late."""

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
        self.beat: float | None = None  # when the destination heard of this exchange last, by its clock
        self.skew: float | None = None  # seconds by which the source's clock was ahead of that
        self.refusals: list[str] = []  # that nobody was told of yet

    def merged(self, members: Sequence[bytes], texts: Sequence[bytes], changed: int) -> None:
        self.entries += len(texts)
        self.payload += sum(map(len, members)) + sum(map(len, texts))
        self.changed += changed

    def refuse(self, shard: bytes, error: bytes) -> None:
        """One shard was refused, or one entry of it; the others go on."""
        self.refused += 1
        self.last_error = str(refusal(shard, error.decode("utf-8", "replace")))
        if len(self.refusals) < MOST_REFUSALS:
            self.refusals.append(self.last_error)

    def failed(self, error: BaseException) -> None:
        self.failures += 1
        self.last_error = str(error)
