"""A journal in memory: what outlives a process that is killed, and is told by another."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from typing import TYPE_CHECKING

from redis_counters.protocol.journal.changes import Stored
from redis_counters.protocol.journal.recorder import Recorder
from tests.simulation.ledger import Account
from tests.simulation.plan import ALWAYS

if TYPE_CHECKING:
    from tests.simulation.process import Process


class Journal:
    """Of one process. ``recorded``: what was counted when it was last written."""

    def __init__(self, process: Process, stored: Stored | None = None) -> None:
        self.process = process
        self.stored = stored or Stored(b"t", b"main", always=process.options.journal == ALWAYS)
        self.failing = 0  # how often it can still not be written: the disk is full
        self.has_failed = False
        self.recorded: Counter[Account] = Counter()

    def call(self, name: bytes, amount: int) -> None:
        """An increment is recorded by itself, before it is counted, where the option says so."""
        if self.stored.always:
            writer = self.process.core.writer
            writer.calls += 1
            self.stored.calls[writer.calls] = (name, amount)
            expiry = writer.router.expiries.known.get(name)
            if expiry is not None:
                self.stored.expiries[name] = expiry.at
            self._note()

    def record(self, recorder: Recorder) -> bool:
        """What changed is kept. False if that did not go well; it may be kept all the same, and nobody knows."""
        changes = recorder.take()
        if changes is not None and self.failing:
            self.failing -= 1
            self.has_failed = True
            kept = self.failing % 3 == 0
            if kept:
                self.stored.apply(deepcopy(changes))
            recorder.put_back(unknown=kept)
            return False
        if changes is not None:
            self.stored.apply(deepcopy(changes))
            recorder.kept()
        # What lies in the buffer still is not in it.
        if not self.process.core.writer.accumulator.buffer and not self.process.core.writer.accumulator.unabsorbed:
            self._note()
        return True

    def _note(self) -> None:
        number, issued = self.process.number, self.process.world.ledger.issued
        self.recorded = Counter({account: n for account, n in issued.items() if account[0] == number})
