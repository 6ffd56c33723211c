"""What one directed pair has done so far."""

from __future__ import annotations

from redis_counters.protocol.exchange.asks import Meter


class Tally:
    """Counts since the exchange was made; one writer, and readers who may be a little late."""

    def __init__(self) -> None:
        self.looks = 0  # at buckets, that went through
        self.entries = 0
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

    def merged(self, entries: int, changed: int) -> None:
        self.entries += entries
        self.changed += changed

    def refuse(self, error: bytes) -> None:
        """One shard was refused; the others go on."""
        self.refused += 1
        self.last_error = error.decode("utf-8", "replace")

    def failed(self, error: BaseException) -> None:
        self.failures += 1
        self.last_error = str(error)
