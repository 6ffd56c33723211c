"""What a flush waits for: all that was buffered when it was called, and nothing that came later."""

from __future__ import annotations

from redis_counters.protocol.actor import Actor, Phase
from redis_counters.protocol.writer import Writer


class Goal:
    """All that was buffered when this was made; `reached` tells whether Redis has it."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.gates: set[bytes] = set()
        self.positions: list[tuple[Actor, list[int]]] = []
        # All of the buffer is in the next batch, if a batch is being placed; else in this one.
        self.batch = writer.batches + bool(writer.buffer.ones)
        self.placed = False
        if self._is_placed():
            self._mark()

    def _is_placed(self) -> bool:
        writer = self.writer
        return writer.keys is not None and (
            writer.batches > self.batch or (writer.batches == self.batch and not writer.unplaced)
        )

    def _mark(self) -> None:
        """The goal is what the writer holds now."""
        self.placed = True
        gates = self.writer.gates
        self.gates = set(gates.waiting) if gates else set()
        self.positions = [(actor, [t.end for t in actor.tables]) for actor in self.writer.actors()]

    def reached(self) -> bool:
        if not self.placed:  # no place was known for what was buffered
            if self.writer.keys is None:
                return self.writer.clean
            if not self._is_placed():
                return False
            self._mark()
        while True:
            while self.positions and _passed(*self.positions[-1]):
                self.positions.pop()  # passed once is passed for good
            if self.positions:
                return False
            gates = self.writer.gates
            if gates is None or not self.gates:
                return gates is None or not gates.again
            if self.gates & gates.waiting.keys():
                return False
            # Published by now: what waited for that is the second half of the goal.
            self._mark()
            self.gates = set()


def _passed(actor: Actor, positions: list[int]) -> bool:
    if actor.phase is Phase.DONE:
        return True
    while actor.successor is not None:
        actor, positions = actor.successor, [0, 0, 0]
    return all(t.has_passed(p) for t, p in zip(actor.tables, positions, strict=True))
