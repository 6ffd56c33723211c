"""Which counters a process flushes again and again: those that are worth a look, if they may grow."""

from __future__ import annotations

import math

from redis_counters.protocol.wire.keys import name_of
from redis_counters.protocol.wire.shard_counts import Shards
from redis_counters.protocol.write.flushes import Totals

PERIOD_S = 2.0  # seconds between looks, about
MAX_WATCHED = 20  # counters that are looked at in a period
MAX_FOUND = 1_000  # of which these are chosen, in turn


class Frequent:
    """Counters that may grow and were flushed in two rounds, one after the other.

    In a round now and then the keys of its flushes are kept, and compared with those of the next. Cost: in these two
    rounds a step per slot, in all others none.
    """

    __slots__ = ("_collecting", "_comparing", "_sample", "_since", "_turn", "found", "shards")

    def __init__(self, shards: Shards) -> None:
        self.shards = shards
        self.found: dict[bytes, None] = {}  # names, since they were last taken
        self._sample: set[bytes] = set()
        self._since = -math.inf
        self._collecting = self._comparing = False
        self._turn = 0

    def new_round(self, now: float) -> None:
        """Begin another round."""
        if self._comparing:
            self._comparing, self._sample = False, set()
        if self._collecting:
            self._collecting, self._comparing = False, True
        elif now - self._since >= PERIOD_S:
            self._collecting, self._since = True, now

    def flushed(self, totals: Totals) -> None:
        """A flush was acknowledged."""
        if self._collecting:
            self._sample.update(totals[0], totals[1])
        elif self._comparing:
            for key in self._sample.intersection((*totals[0], *totals[1])):
                if len(self.found) < MAX_FOUND and self.shards.may_grow(name := name_of(key)):
                    self.found[name] = None

    def take(self) -> list[bytes]:
        """Return some of the names; where there are many, others each time."""
        names = sorted(self.found)
        self.found.clear()
        start = self._turn % max(len(names), 1)
        self._turn += MAX_WATCHED
        return (names[start:] + names[:start])[:MAX_WATCHED]
