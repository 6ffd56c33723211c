"""Counters that are read together, from the question to the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redis_counters.protocol.read.snapshot import Place, Slot, Snapshot
from redis_counters.protocol.read.sums import ParsedCache
from redis_counters.protocol.wire.shard_fields import CROWD
from redis_counters.protocol.wire.values import CounterValue, made_value

Want = tuple[bytes, Snapshot, list[Place]]  # shards that the snapshot of a name needs


class PageRead:
    """Names, their shards, and what is to become of them: snapshots, and, if nothing has changed, their contents.

    Most of it can be made while the answer is on its way, and most counters of a page have not changed since they were
    read last.
    """

    __slots__ = (
        "_acknowledged",
        "_as_of",
        "_drops",
        "_epoch",
        "_fresh_until",
        "_places",
        "_sums",
        "as_before",
        "crowded",
        "names",
        "snapshots",
        "taken",
        "values",
    )

    def __init__(
        self,
        names: list[bytes],
        places: list[list[Place]],
        acknowledged: list[Mapping[Slot, int]] | None,
        sums: ParsedCache,
        taken: float,
        as_of: float,
        fresh_until: float,
        drops: int,
        epoch: int,
    ) -> None:
        self.names = names
        self.taken, self._as_of, self._fresh_until, self._drops, self._epoch = taken, as_of, fresh_until, drops, epoch
        self.snapshots: list[Snapshot] = []
        self.as_before: list[Any] = []
        """The fields of all shards, if they are what was read last, and there are no more of them. Then the snapshots
        hold what they count, and these are their values, as far as nothing of it is this process's own."""
        self.values: list[CounterValue] = []
        self.crowded = False  # then there are many fields in one of them
        self._places = places
        self._acknowledged = acknowledged  # what is acknowledged of own slots
        self._sums = sums

    def keys(self) -> list[bytes]:
        """Return the keys of all shards, in order."""
        return [key for places in self._places for _bucket, key in places]

    def wanted(self) -> list[Want]:
        """Return the snapshots with what they need."""
        return list(zip(self.names, self.snapshots, self._places, strict=True))

    def prepare(self) -> None:
        """It has its snapshots. Needs no lock, and does nothing the second time."""
        if self.snapshots:
            return
        taken, as_of, fresh_until, drops = self.taken, self._as_of, self._fresh_until, self._drops
        as_before, values, before = self.as_before, self.values, self._sums.kept.get
        snapshots: list[Snapshot] = []
        for name, places in zip(self.names, self._places, strict=True):
            snapshot = Snapshot(taken, as_of, fresh_until, drops, places)
            snapshots.append(snapshot)
            found = before(name)
            if found is not None and found[2] == len(found[0]) == len(places):
                as_before.extend(found[0])
                snapshot.counted = found[1]
                snapshot.value = value = made_value(found[1], as_of, 0)
                snapshot.epoch = self._epoch
                values.append(value)
        if self._acknowledged is not None:
            for snapshot, acknowledged in zip(snapshots, self._acknowledged, strict=True):
                snapshot.acknowledged = acknowledged
        self.crowded = bool(as_before) and max(map(len, as_before)) >= CROWD
        self.snapshots = snapshots
