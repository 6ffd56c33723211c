"""Recording: which part of a writer is in its journal, and which must be there before anything is sent.

A `Recorder` watches one `Writer`. Each ``take()`` returns the `Changes` since what was kept last; the driver stores
them and says ``kept()`` or, if they could not be stored, ``put_back()``. ``drivers.journal`` stores them in a file; a
simulation stores them in memory, and so has a process that is killed and started again:

    settings = make_settings(journal="memory")           # any text: the protocol only asks whether there is one
    stored = Stored(b"rc", b"main", always=False)
    recorder = Recorder(writer, strict=False)
    changes = recorder.take()                            # at each `RecordStep` of a round, and whenever it likes
    if changes is not None:
        stored.apply(changes)                            # or not: recorder.put_back(), and the step gets False
        recorder.kept()
    ...                                                  # the process is killed
    recorder = revive(stored, settings, keys, mint, now) # and all of its writer is sent, by the usual rounds

A call that is recorded by itself (mode ``always``): ``stored.calls[n] = (name, amount)`` with a growing n; then
``writer.calls = n``, and it is counted.

An old journal must be harmless, be it old because the disk was full or because power failed. Totals are sent by
maximum, so it is. But two things are not sent before they are recorded (`Recorder.holds`), and on the disk:

- an amount that was moved from one place to another (to a new actor, to its bucket): else the old place, sent by the
  journal, and the new one would count it twice;
- the first flush of an actor whose id the journal does not know: else, if that actor is closed by a janitor, its owner
  token would get another actor, and count again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from redis_counters.protocol.journal.changes import Changes, Head, Slot
from redis_counters.protocol.write.actor import Actor
from redis_counters.protocol.write.flushes import Totals
from redis_counters.protocol.write.slot_totals import SlotKind, SlotTotals
from redis_counters.protocol.write.states import Phase
from redis_counters.protocol.write.writer import Writer


class Seen(NamedTuple):
    """Last persisted header, first and last remembered flush, transfers in."""

    head: Head
    first: int  # flushes from here
    last: int  # to here
    moved: int


class Recorder:
    """Knows what of a writer is kept. ``strict``: nothing is sent that is not."""

    def __init__(self, writer: Writer, *, strict: bool) -> None:
        self.writer = writer
        self.strict = strict
        self.anything = False  # is kept at all
        self.seen: dict[Actor, Seen] = {}
        self.rows: set[Actor] = set()  # which may be in the journal, though not as they were last
        self.calls = 0
        self.early = False  # amounts without a bucket are kept
        self.buckets: int | None = None
        self.numbers: dict[Actor, int] = {}
        self._number = 0
        self._taken: _Taken | None = None

    def resume(self, seen: dict[Actor, Seen], numbers: dict[Actor, int], *, early: bool, buckets: int | None) -> None:
        """All of this is kept already: the writer was made of it."""
        self.seen, self.early, self.buckets, self.rows = seen, early, buckets, set(seen)
        self.numbers = numbers
        self._number = max(numbers.values(), default=0)
        self.anything = True

    def start_over(self) -> None:
        """Nothing is kept: what was is lost."""
        self.anything = self.early = False
        self._taken = None
        self.rows.clear()
        self.seen, self.numbers, self.calls, self.buckets = {}, {}, 0, None
        for actor in self.writer.router.actors():
            for table in actor.tables:
                table.changed = dict.fromkeys(table.total)
        for changed, amounts in zip(self.writer.router.unrouted_changed, self.writer.router.unrouted, strict=True):
            changed.update(dict.fromkeys(amounts))
        self.writer.router.expiries.change(self.writer.router.expiries.known)

    def holds(self, actor: Actor) -> bool:
        """True if what the actor has to send must not be sent as long as it cannot be recorded."""
        if self.strict:
            return True
        seen = self.seen.get(actor)
        if actor.moved > (seen.moved if seen is not None else 0):
            return self.anything
        return actor in self.rows and (seen is None or not seen.head.id)

    def take(self) -> Changes | None:
        """Return what changed since what was kept, None if nothing did.

        Cost: O(actors), and O(changes).
        """
        if self._taken is not None:  # an exception of a signal handler came between
            self.put_back(unknown=True)
        writer = self.writer
        taken = _Taken({}, [], [])
        heads: list[tuple[int, Head]] = []
        slots = _Slots([], [])
        flushes: list[tuple[int, int, int, Totals]] = []
        flushes_from: list[tuple[int, int]] = []
        vital = moved = False
        actors = list(writer.router.actors())
        for actor in actors:
            before = self.seen.get(actor)
            if before is None and actor.state.phase is Phase.NEW and not any(table.changed for table in actor.tables):
                actor.moved = 0  # it holds nothing, so nothing that was moved
                continue
            number = self._number_of(actor)
            last = 0 if before is None else before.last
            head = head_of(actor)
            first, latest = _remembered(actor)
            now = Seen(head, first, latest, actor.moved)
            slots.take(actor, number, taken)
            if now == before:
                continue
            taken.seen[actor] = now
            # (From before the buckets were known, nothing comes out of another actor.)
            moved = moved or (bool(self.seen) and actor.moved > (0 if before is None else before.moved))
            vital = vital or (bool(head.id) and not self.strict and self.holds(actor))
            heads.append((number, head))
            for seq in reversed(actor.sent):
                if seq <= last:
                    break
                flushes.append((number, seq, actor.sent[seq].base, actor.sent[seq].totals))
            if before is not None and first > before.first:
                flushes_from.append((number, first))
        present = set(actors)
        taken.gone = [actor for actor in self.numbers if actor not in present]
        gone = [self.numbers[actor] for actor in taken.gone]
        early = self._take_early(taken)
        taken.early_rows = bool(early)
        taken.early_gone = self.early and writer.router.keys is not None
        taken.calls = writer.calls
        taken.buckets = writer.router.keys.buckets if writer.router.keys is not None else self.buckets
        taken.expiries = writer.router.expiries.take_changes()
        known = writer.router.expiries.known
        expiries = [(name, known[name].at if name in known else None) for name in taken.expiries]
        something = heads or slots.now or slots.gone or gone or early or taken.early_gone or expiries
        if not (something or taken.calls > self.calls):
            return None
        self._taken = taken
        return Changes(
            buckets=taken.buckets,
            heads=heads,
            slots=slots.now,
            slots_gone=slots.gone,
            flushes=flushes,
            flushes_from=flushes_from,
            gone=gone,
            early=early,
            early_gone=taken.early_gone,
            expiries=expiries,
            calls=taken.calls,
            moved=moved,
            vital=vital or taken.early_gone,
        )

    def kept(self) -> None:
        """The changes that were taken are kept, for good."""
        taken, self._taken = self._taken, None
        if taken is None:  # it was kept where it is lost by now
            return
        self.anything = True
        self.seen.update(taken.seen)
        self.rows.update(taken.seen)
        for actor in taken.gone:
            self.seen.pop(actor, None)
            self.rows.discard(actor)
            del self.numbers[actor]
        self.early = taken.early_rows or (self.early and not taken.early_gone)
        self.calls, self.buckets = taken.calls, taken.buckets

    def put_back(self, *, unknown: bool = False) -> None:
        """The changes that were taken are not kept, or perhaps not: they are part of the next, perhaps twice."""
        taken, self._taken = self._taken, None
        if taken is None:
            return
        self.anything = self.anything or unknown
        self.early = self.early or (unknown and taken.early_rows)
        if unknown:
            self.rows.update(taken.seen)
        for table, changed in taken.slots:
            changed.update(table.changed or {})
            table.changed = changed
        for changed, names in zip(self.writer.router.unrouted_changed, taken.early, strict=False):
            changed.update(names)
        self.writer.router.expiries.change(taken.expiries)

    def _number_of(self, actor: Actor) -> int:
        # It keeps its number even if it is not known whether it was kept: else it might be kept twice.
        number = self.numbers.get(actor)
        if number is None:
            self._number += 1
            number = self.numbers[actor] = self._number
        return number

    def _take_early(self, taken: _Taken) -> list[tuple[SlotKind, bytes, int]]:
        writer = self.writer
        taken.early = list(writer.router.unrouted_changed)
        writer.router.unrouted_changed = ({}, {})
        kinds = (SlotKind.PLUS, SlotKind.MINUS)
        if writer.router.keys is not None:  # but for what an exception left, none: their rows go, these stay
            return [(kind, name, amount) for kind in kinds for name, amount in writer.router.unrouted[kind].items()]
        return [
            (kind, name, writer.router.unrouted[kind][name])
            for kind in kinds
            for name in taken.early[kind]
            if name in writer.router.unrouted[kind]
        ]


@dataclass
class _Taken:
    """The changes that are being stored."""

    seen: dict[Actor, Seen]
    slots: list[tuple[SlotTotals, dict[bytes, None]]]
    gone: list[Actor]
    early: list[dict[bytes, None]] = field(default_factory=list)
    early_rows: bool = False
    early_gone: bool = False
    expiries: dict[bytes, None] = field(default_factory=dict)
    calls: int = 0
    buckets: int | None = None


class _Slots(NamedTuple):
    now: list[tuple[int, SlotKind, bytes, Slot]]
    gone: list[tuple[int, SlotKind, bytes]]

    def take(self, actor: Actor, number: int, taken: _Taken) -> None:
        """The actor's slots that changed are here, and count as unchanged."""
        for table in actor.tables:
            changed = table.changed
            if not changed:
                continue
            table.changed = {}
            taken.slots.append((table, changed))
            kind, total, acknowledged = table.kind, table.total, table.acknowledged
            applied = _applied(actor, kind)
            for key in changed:
                if key in total:
                    slot = Slot(total[key], acknowledged.get(key, 0), applied.get(key, 0))
                    self.now.append((number, kind, key, slot))
                else:
                    self.gone.append((number, kind, key))


def _applied(actor: Actor, kind: SlotKind) -> dict[bytes, int]:
    known = actor.known_applied
    return known[kind] if known is not None and kind is not SlotKind.SHARDS else {}


def head_of(actor: Actor) -> Head:
    """Return what is kept of an actor beside its totals."""
    state = actor.state
    return Head(
        actor.bucket,
        actor.owner,
        actor.id,
        actor.seq,
        actor.base,
        state.requires_exact_base,
        state.healing,
        state.base_inexact,
        actor.unknown is not None,
        state.phase is Phase.FOLDING,
        state.journal_behind,
    )


def _remembered(actor: Actor) -> tuple[int, int]:
    """Return the first and the last of the flushes that the actor remembers."""
    sent: Iterable[int] = actor.sent
    first = next(iter(sent), None)
    return (actor.seq + 1, actor.seq) if first is None else (first, next(reversed(actor.sent)))
