"""Small journals, each bit of which is flipped, and each byte of which is its end; and what may be told of them then.

``python -m tests.journal.flipping`` does so with every bit and byte (an hour of one core; best with TMPDIR in memory),
the test with some of them.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from redis_counters.drivers.journal import format
from redis_counters.drivers.journal.file import JournalFile
from redis_counters.drivers.journal.mark import Mark, read_mark
from redis_counters.drivers.journal.salvage import examine
from redis_counters.protocol.journal.changes import Changes, Head, Slot, Stored
from redis_counters.protocol.write.slot_totals import SlotKind

NOTHING: dict[str, Any] = {
    "buckets": None,
    "heads": [],
    "slots": [],
    "slots_gone": [],
    "flushes": [],
    "flushes_from": [],
    "gone": [],
    "early": [],
    "early_gone": False,
    "expiries": [],
    "calls": 0,
    "moved": False,
    "vital": False,
}


def changes(**some: Any) -> Changes:
    return Changes(**{**NOTHING, **some})


def key(name: str) -> bytes:
    return b"{rc:0}:c:0:" + name.encode()


def head(seq: int, id_: bytes = b"G.1.abcd", owner: bytes = b"owner-0001", *, answered: bool = False) -> Head:
    base = seq if answered else max(seq - 1, 0)
    return Head(0, owner, id_, seq, base, False, False, False, seq > base, False, False)


# What a recorder says while Redis is away, while it answers, and when each call is recorded by itself. What comes
# before the yield is in the file, what comes behind it in the log.


def away(file: JournalFile) -> Iterator[None]:
    for number in range(4):
        file.write(changes(early=[(SlotKind.PLUS, b"name-%d" % n, number + n + 1) for n in range(number + 1)]))
        if number == 1:
            yield
    file.write(changes(early=[(SlotKind.MINUS, b"name-3", 4)], expiries=[(b"name-1", 1_900_000_000)]))


def flushed(file: JournalFile) -> Iterator[None]:
    """Early amounts get their places; flushes, one of them without an answer; a slot that moved to another actor."""
    names = [f"name-{n}" for n in range(4)]
    file.write(changes(early=[(SlotKind.PLUS, name.encode(), 5) for name in names]))
    yield
    slots = [(1, SlotKind.PLUS, key(name), Slot(5, 0, 0)) for name in names]
    file.write(changes(buckets=1, heads=[(1, head(0, b""))], slots=slots, early_gone=True, vital=True))
    file.write(changes(buckets=1, heads=[(1, head(1))], flushes=[(1, 1, 0, told(dict.fromkeys(names, 5)))], vital=True))
    slots = [(1, SlotKind.PLUS, key(name), Slot(5, 5, 0)) for name in names[1:]]
    slots.append((1, SlotKind.PLUS, key(names[0]), Slot(8, 5, 0)))
    slots.append((1, SlotKind.MINUS, key(names[2]), Slot(2, 0, 0)))
    file.write(changes(buckets=1, heads=[(1, head(2))], slots=slots, flushes=[(1, 2, 1, told({names[0]: 8}))]))
    file.write(
        changes(
            buckets=1,
            heads=[(2, head(0, b"", b"owner-0002"))],
            slots=[(2, SlotKind.PLUS, key(names[3]), Slot(6, 0, 0)), (2, SlotKind.PLUS, key("late"), Slot(9, 0, 0))],
        )
    )
    file.write(changes(buckets=1, heads=[(2, head(1, b"G.2.abcd", b"owner-0002"))], vital=True))
    # What Redis refuses moves on.
    file.write(
        changes(
            buckets=1,
            heads=[(1, head(2, answered=True))],
            slots=[
                (2, SlotKind.PLUS, key(names[0]), Slot(3, 0, 0)),
                (2, SlotKind.MINUS, key(names[2]), Slot(2, 0, 0)),
                (1, SlotKind.PLUS, key(names[0]), Slot(5, 5, 0)),
            ],
            slots_gone=[(1, SlotKind.MINUS, key(names[2]))],
            moved=True,
            vital=True,
        )
    )
    file.write(changes(buckets=1, slots=[(2, SlotKind.PLUS, key("last"), Slot(2, 0, 0))]))


def called(file: JournalFile) -> Iterator[None]:
    """Calls by themselves; some of them are in totals, and sent."""
    for call in range(1, 5):
        file.append(call, b"name-%d" % (call % 3), call, None)
    early = [(SlotKind.PLUS, b"name-0", 3), (SlotKind.PLUS, b"name-1", 5), (SlotKind.PLUS, b"name-2", 2)]
    file.write(changes(early=early, calls=4))
    file.append(5, b"name-0", 7, None)
    yield
    slots = [(1, SlotKind.PLUS, key("name-0"), Slot(10, 0, 0)), (1, SlotKind.PLUS, key("name-1"), Slot(5, 0, 0))]
    slots.append((1, SlotKind.PLUS, key("name-2"), Slot(2, 0, 0)))
    file.write(changes(buckets=1, heads=[(1, head(0, b""))], slots=slots, early_gone=True, calls=5, vital=True))
    file.write(changes(buckets=1, heads=[(1, head(1))], flushes=[(1, 1, 0, told({"name-0": 10}))], calls=5))
    for call in range(6, 10):
        file.append(call, b"name-%d" % (call % 3), call, 1_900_000_000 if call == 8 else None)


def told(totals: dict[str, int]) -> Any:
    return {key(name): total for name, total in totals.items()}, {}, {}


JOURNALS = {"away": (away, False), "flushed": (flushed, False), "called": (called, True)}


@dataclass
class Journal:
    """The bytes of a small journal, and what it says while it is whole."""

    parts: dict[str, bytes]  # by what the names end with
    whole: Stored

    def cases(self) -> Iterator[Case]:
        """Yield all of them: each part with each bit flipped, and cut at each byte."""
        for part, content in self.parts.items():
            for bit in range(len(content) * 8):
                yield Case(part, "flip", bit)
            for size in range(len(content)):
                yield Case(part, "cut", size)


class Case(NamedTuple):
    part: str
    what: str
    where: int

    def of(self, content: bytes) -> bytes:
        if self.what == "cut":
            return content[: self.where]
        flipped = bytearray(content)
        flipped[self.where // 8] ^= 1 << self.where % 8
        return bytes(flipped)


def made(which: str, directory: Path, *, page: int, checkpointed: bool) -> Journal:
    """Return a small journal. ``checkpointed``: nothing is in its log."""
    before, format.PAGE = format.PAGE, page
    try:
        fill, always = JOURNALS[which]
        file = JournalFile.make(directory, Stored(b"rc", b"main", always), lambda: "small")
        for _step in fill(file):
            _checkpoint(file)
    finally:
        format.PAGE = before
    if checkpointed:
        _checkpoint(file)
    ends = {".journal": ".journal", ".journal-wal": ".journal-wal", ".lock": ".lock"}
    parts = {end: (directory / f"rc-small{end}").read_bytes() for end in ends}
    file.remove()
    journal = Journal(parts, Stored(b"", b"", always=False))
    damage, stored = look(journal, None, directory)
    assert not damage
    assert stored is not None
    journal.whole = stored
    return journal


def _checkpoint(file: JournalFile) -> None:
    assert file.connection is not None
    file.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def look(journal: Journal, case: Case | None, directory: Path) -> tuple[str, Stored | None]:
    """Return what is said to be wrong with it, and what would be told."""
    for end, content in journal.parts.items():
        name = directory / f"rc-small{end}"
        name.unlink(missing_ok=True)
        name.write_bytes(case.of(content) if case is not None and case.part == end else content)
    descriptor = os.open(directory / "rc-small.lock", os.O_RDONLY)
    try:
        mark: Mark | None = read_mark(descriptor)
    finally:
        os.close(descriptor)
    reading = examine(directory / "rc-small.journal", mark)
    if reading.connection is not None:
        with suppress(sqlite3.Error, UnicodeDecodeError):
            reading.connection.execute("PRAGMA synchronous = OFF")
        reading.connection.close()
    return reading.damage, reading.stored


def amounts(stored: Stored) -> tuple[Counter[tuple[str, SlotKind, bytes]], Counter[tuple[SlotKind, bytes]]]:
    """Return what slots have, by owner, and what waits for its place."""
    slots: Counter[tuple[str, SlotKind, bytes]] = Counter()
    for actor in stored.actors.values():
        for (kind, name), slot in actor.slots.items():
            slots[actor.head.owner.decode(), kind, name.removeprefix(key(""))] = slot.total
    waiting: Counter[tuple[SlotKind, bytes]] = Counter(stored.early)
    for name, amount in stored.calls.values():
        waiting[SlotKind.PLUS if amount > 0 else SlotKind.MINUS, name] += abs(amount)
    return slots, waiting


def values(stored: Stored | None, redis: Stored | None) -> Counter[tuple[SlotKind, bytes]]:
    """Return what is counted in the end, if Redis has all that another journal's actors could have sent."""
    slots, waiting = amounts(stored) if stored is not None else (Counter(), Counter())
    if redis is not None:
        for which, total in amounts(redis)[0].items():
            slots[which] = max(slots[which], total)
    for (_owner, kind, name), total in slots.items():
        waiting[kind, name] += total
    return waiting


def verdict(journal: Journal, case: Case, directory: Path) -> str:
    """Return how it went. Raises AssertionError if that may be too much, or too little without a word."""
    damage, stored = look(journal, case, directory)
    if not damage:
        assert stored == journal.whole, f"{case}: in silence another one"
        return "exact"
    must = values(journal.whole, None)
    for redis in (None, journal.whole):
        for which, value in values(stored, redis).items():
            assert value <= must[which], f"{case}: {which} is {value} of {must[which]}; {damage}"
    if stored is None:
        return "reported, nothing told"
    return "reported, all told" if values(stored, None) == must else "reported, a part told"


def main(page: int = 512) -> None:
    with tempfile.TemporaryDirectory() as directory:
        for which in sys.argv[1:] or JOURNALS:
            for checkpointed in (False, True):
                journal = made(which, Path(directory), page=page, checkpointed=checkpointed)
                found: dict[tuple[str, str], Counter[str]] = {}
                for case in journal.cases():
                    try:
                        how = verdict(journal, case, Path(directory))
                    except Exception as error:
                        print(f"{which}, {error!r}", flush=True)
                        how = "WRONG"
                    found.setdefault((case.part, case.what), Counter())[how] += 1
                for (part, what), counts in found.items():
                    print(which, "file" if checkpointed else "log", part, what, dict(counts), flush=True)


if __name__ == "__main__":
    main()
