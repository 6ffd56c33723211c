"""A journal's content as values: the part of a write side that must outlive its process. Nothing here touches a file.

`Stored` is all of a journal: it takes the `Changes` of a `Recorder` in by ``apply``, and `recovery.revive` makes a
writer of it. ``drivers.journal`` keeps the same in a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from redis_counters.protocol.write.flushes import Totals
from redis_counters.protocol.write.slot_totals import SlotKind


class Head(NamedTuple):
    """An actor without its totals. ``unanswered``: its latest flush; ``folding``: a fold of it may have been sent.

    ``behind``: an earlier reader of the journal has found that it lacks flushes.
    """

    bucket: int
    owner: bytes
    id: bytes
    seq: int
    base: int
    requires_exact_base: bool
    healing: bool
    base_inexact: bool
    unanswered: bool
    folding: bool
    behind: bool


class Slot(NamedTuple):
    """One slot of an actor. ``applied``: what Redis held as of the actor's base, while a fail-over is being healed."""

    total: int
    acknowledged: int
    applied: int


@dataclass(frozen=True)
class Changes:
    """The differences from what was kept. Actors go by a number of their own."""

    buckets: int | None
    heads: list[tuple[int, Head]]
    slots: list[tuple[int, SlotKind, bytes, Slot]]
    slots_gone: list[tuple[int, SlotKind, bytes]]
    flushes: list[tuple[int, int, int, Totals]]  # actor, seq, base, what it sends
    flushes_from: list[tuple[int, int]]  # actor, seq: earlier ones are forgotten
    gone: list[int]  # actors at their end
    early: list[tuple[SlotKind, bytes, int]]  # counted before the buckets are known
    early_gone: bool  # they have their places now, but for these
    expiries: list[tuple[bytes, int | None]]  # when counters expire, by name; None: it is of no use any more
    calls: int  # calls up to this number are in the totals
    moved: bool  # amounts of one actor are another's now
    vital: bool  # more may be sent only when this is on the disk


@dataclass
class StoredActor:
    """One actor in a journal."""

    head: Head
    slots: dict[tuple[SlotKind, bytes], Slot] = field(default_factory=dict)
    flushes: dict[int, tuple[int, Totals]] = field(default_factory=dict)  # seq: base, what it sends


@dataclass
class Stored:
    """All of a journal. ``always``: whatever was counted or sent is in it, without exception."""

    namespace: bytes
    region: bytes
    always: bool
    buckets: int | None = None
    actors: dict[int, StoredActor] = field(default_factory=dict)
    early: dict[tuple[SlotKind, bytes], int] = field(default_factory=dict)
    calls: dict[int, tuple[bytes, int]] = field(default_factory=dict)
    expiries: dict[bytes, int] = field(default_factory=dict)

    def apply(self, changes: Changes) -> None:
        """The changes are kept: all of them, or in a file none."""
        self.buckets = changes.buckets
        for number in changes.gone:
            self.actors.pop(number, None)
        for number, head in changes.heads:
            self.actors.setdefault(number, StoredActor(head)).head = head
        for number, kind, key, slot in changes.slots:
            self.actors[number].slots[kind, key] = slot
        for number, kind, key in changes.slots_gone:
            self.actors[number].slots.pop((kind, key), None)
        for number, seq, base, totals in changes.flushes:
            self.actors[number].flushes[seq] = (base, totals)
        for number, first in changes.flushes_from:
            flushes = self.actors[number].flushes
            for seq in [seq for seq in flushes if seq < first]:
                del flushes[seq]
        if changes.early_gone:
            self.early.clear()
        for kind, name, amount in changes.early:
            self.early[kind, name] = amount
        for call in [call for call in self.calls if call <= changes.calls]:
            del self.calls[call]
        for name, at in changes.expiries:
            if at is None:
                self.expiries.pop(name, None)
            else:
                self.expiries[name] = at
