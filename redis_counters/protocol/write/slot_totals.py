"""One actor's slots of one kind: cumulative totals, which of them are acknowledged, and which must be sent.

A key is dirty as long as its total is above what is acknowledged, no flush is on its way with it, and Redis has not
refused it. (`accumulator.py` adds to totals by itself where that is a third of the cost of a flush.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from itertools import islice

ALL = 2**62  # a position behind every other


class SlotKind(IntEnum):
    """The meaning of a table's totals. All of them only grow, and Redis takes their maximum."""

    PLUS = 0  # cumulative increments
    MINUS = 1  # cumulative decrements
    SHARDS = 2  # the number of shards of a counter, kept in its shard 0


SIGNS = (b"+", b"-")  # what the fields of slots end with, by kind


class SlotTotals:
    """Totals by shard key. `dirty` is first in, first out, so that a flush can tell when it has passed a point."""

    __slots__ = (
        "absent",
        "acknowledged",
        "changed",
        "dirty",
        "floored",
        "gated",
        "kind",
        "must",
        "passed",
        "refused",
        "stop",
        "taken",
        "total",
    )

    def __init__(self, kind: SlotKind) -> None:
        self.kind = kind
        self.total: dict[bytes, int] = {}
        self.acknowledged: dict[bytes, int] = {}
        self.dirty: dict[bytes, None] = {}
        self.absent: set[bytes] = set()  # a read found these deleted, and not lost: it need not ask again
        self.floored: set[bytes] = set()  # reported missing: they go again with their floor
        self.refused: dict[bytes, str] = {}  # Redis rejected these alone: kept, sent again when asked
        self.gated: set[bytes] = set()  # wait until their counter's larger number of shards is published
        self.taken = 0  # how many keys left the front of `dirty`,
        self.passed = 0  # and how many of those were answered
        self.stop = 0  # what is dirty from here on is for the next round
        self.must = 0  # earlier answers do not count any more up to here
        self.changed: dict[bytes, None] | None = None  # since the journal saw it; None: there is no journal

    def add(self, key: bytes, amount: int) -> None:
        """The total is higher by ``amount``, and will be sent."""
        total = self.total
        total[key] = total.get(key, 0) + amount
        if self.changed is not None:
            self.changed[key] = None
        if key not in self.gated:
            self.dirty[key] = None

    def take(self, limit: int) -> list[bytes]:
        """Return the next keys to send in this round, at most ``limit``, and remove them from the front."""
        dirty = self.dirty
        keys: list[bytes] = []
        while not keys and (room := min(limit, self.stop - self.taken, len(dirty))) > 0:
            if len(dirty) == room:
                keys = list(dirty)
                dirty.clear()
            else:
                keys = list(islice(dirty, room))
                for key in keys:
                    del dirty[key]
            self.taken += len(keys)
            if self.gated:
                keys = [key for key in keys if key not in self.gated]
        return keys

    def acknowledge(self, sent: Mapping[bytes, int]) -> None:
        """Redis holds at least ``sent``."""
        if self.floored:
            self.floored.difference_update(sent)
        if self.absent:
            self.absent.difference_update(sent)
        if self.refused:
            for key in sent:
                self.refused.pop(key, None)
        # Never less than before: totals only grow, and one flush at a time is on its way.
        self.acknowledged.update(sent)
        if self.changed is not None:
            self.changed.update(dict.fromkeys(sent))

    def forget(self) -> None:
        """Forget all acknowledgements: every total is to be sent again."""
        self.acknowledged = {}
        self.floored.clear()
        self.absent.clear()
        if self.changed is not None:
            self.changed.update(dict.fromkeys(self.total))
        self.dirty.update(dict.fromkeys(self.total))
        self.must = self.end
        self.stop = max(self.stop, self.end)  # others miss it until it is there, so it need not wait for the next round

    def send_again(self) -> None:
        """Send all that is neither acknowledged nor refused, whatever was done with it before."""
        self.dirty.update((key, None) for key, _amount in self.pending() if key not in self.refused)
        self.must = self.end

    @property
    def end(self) -> int:
        """The position behind the last dirty key: once it is passed, all that is dirty now was answered."""
        return self.taken + len(self.dirty)

    def raise_to(self, key: bytes, total: int) -> None:
        """The total is at least that, and will be sent (of a number of shards, which is not added up)."""
        self.total[key] = max(total, self.total.get(key, 0))
        self.refused.pop(key, None)
        self.dirty[key] = None
        if self.changed is not None:
            self.changed[key] = None

    def gate(self, key: bytes) -> None:
        """The key waits until its counter's number of shards is published."""
        self.gated.add(key)  # it keeps its position in `dirty`, where `take` passes over it

    def release(self, key: bytes, refused: str | None) -> None:
        """The key waits no longer: it may be sent, or Redis has refused that."""
        self.gated.discard(key)
        if self.total.get(key, 0) == self.acknowledged.get(key, 0):
            return
        if refused is None:
            self.dirty[key] = None
        else:
            self.refused[key] = refused

    def pending(self) -> Iterable[tuple[bytes, int]]:
        """Yield (key, amount) of what is not acknowledged. Cost: O(keys)."""
        acknowledged = self.acknowledged
        for key, total in self.total.items():
            rest = total - acknowledged.get(key, 0)
            if rest:
                yield key, rest
