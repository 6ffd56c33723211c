"""The target of a flush: all that was buffered when it was called, and nothing that came later."""

from __future__ import annotations

from collections.abc import Collection

from redis_counters.protocol.journal.recovery import Orphan
from redis_counters.protocol.write.actor import Actor
from redis_counters.protocol.write.states import Phase
from redis_counters.protocol.write.writer import Writer


class FlushTarget:
    """All that was buffered when this was made; `reached` says whether Redis has it.

    It is a position in each table's queue. What waits at a gate is passed over there; so if anything did, the target
    goes on with what waits then, and after that with what was let through.
    """

    def __init__(self, writer: Writer, orphans: Collection[Orphan] = ()) -> None:
        self.writer = writer
        self.orphans = list(orphans)  # what processes that are gone had counted must be there too
        # What is in the buffer now will all be in the next batch; if it is empty, it is in the current one. (If an
        # exception came up in the middle, something is taken and in no batch yet: that will be one of its own.)
        counting = writer.accumulator
        self.batch = counting.batches + bool(counting.claimed) + bool(counting.buffer.ones)
        self.positions: list[tuple[Actor, list[int]]] | None = None
        self.gated: set[bytes] | None = None
        self.released = False
        self.losses = writer.losses
        self.done = False
        self.flushes: int | None = None  # that have to be confirmed, once all has passed
        publication = writer.router.publication
        self.waits_before = 0 if publication is None else -1 if publication.waiting else publication.used
        if self._is_placed():
            self._mark()

    def _is_placed(self) -> bool:
        counting = self.writer.accumulator
        past = counting.batches > self.batch
        placed = counting.batches == self.batch and counting.placed == len(counting.names)
        return self.writer.router.keys is not None and (past or placed)

    def _mark(self) -> None:
        self.positions = [(actor, [t.end for t in actor.tables]) for actor in self.writer.router.actors_in_use()]

    def reached(self) -> bool:
        """Once True, it stays so: what others count later does not concern this target."""
        if not self.done:
            if self.flushes is None and self._reached():
                self.flushes = self.writer.flushes
            self.done = self.flushes is not None and self.writer.confirmation.covers(self.flushes)
        return self.done and (not self.orphans or all(orphan.sent for orphan in self.orphans))

    def _reached(self) -> bool:
        if self.writer.router.keys is None:
            return self.writer.clean
        if self.positions is None:
            if not self._is_placed():
                return False
            self._mark()
        publication = self.writer.router.publication
        if not self._passed() or publication is None or publication.again:
            return False
        if any(actor.state.probe_due for actor in self.writer.router.actors_in_use()):
            return False
        if self.losses != self.writer.losses:  # a fail-over: what had passed may have to pass again
            self.losses = self.writer.losses
            self._mark()
            if not self._passed():
                return False
        if publication.used == self.waits_before or self.released:
            return True
        if self.gated is None:
            self.gated = set(publication.waiting)
        if not self.gated.isdisjoint(publication.waiting):
            return False
        self.released = True
        self._mark()
        return self._passed()

    def _passed(self) -> bool:
        positions = self.positions
        while positions and _has_passed(*positions[-1]):
            positions.pop()  # passed once is passed for good
        return not positions


def _has_passed(actor: Actor, positions: list[int]) -> bool:
    if actor.state.phase is Phase.DONE:
        return True
    while actor.successor is not None:
        actor, positions = actor.successor, [0, 0, 0]
    return all([t.passed >= max(p, t.must) for t, p in zip(actor.tables, positions, strict=True)])  # noqa: C419 - fewer calls
