"""Reading a journal that may be damaged: the rows that are whole, and what is wrong with it.

Every row is checked by itself, so that a damaged one takes no other with it. The row of table ``state`` says whether
rows are missing, or are as they were before; the mark says whether the whole file is as it was before.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from redis_counters.drivers.journal.checks import KEYS, State, checksum
from redis_counters.drivers.journal.errors import not_now
from redis_counters.drivers.journal.format import SCHEMA, unpacked
from redis_counters.drivers.journal.mark import Mark
from redis_counters.errors import quoted
from redis_counters.protocol.journal.changes import Head, Slot, Stored, StoredActor
from redis_counters.protocol.write.slot_totals import SlotKind


@dataclass
class Found:
    """The rows of a journal that are whole, and its problems."""

    stored: Stored = field(default_factory=lambda: Stored(b"", b"", always=False))
    about: dict[bytes, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    state: State | None = None
    tables: bool = True  # are those that this version makes
    sound: bool = True  # SQLite finds nothing wrong with it
    counted: bool = False  # no row is missing, but some may be damaged
    summed: bool = False  # all rows are as they were at one time, but for those of calls

    @property
    def ours(self) -> bool:
        """It is known whose it is."""
        return bool({b"namespace", b"region", b"always"} <= self.about.keys())

    @property
    def rounds(self) -> int:
        return self.state.rounds if self.state is not None else 0

    @property
    def counted_calls(self) -> int:
        """Calls up to here are in the totals."""
        return self.state.calls if self.state is not None else 0

    def wrong(self, what: str) -> None:
        """SQLite finds something wrong with it."""
        self.sound = False
        self.problems.append(what)

    def missing(self, mark: Mark) -> str:
        """Return what was written later than this state; nothing if that is not so."""
        if self.rounds < mark.rounds:
            return f"it lacks the last {mark.rounds - self.rounds} of {mark.rounds} writes"
        last = max(self.stored.calls, default=0)
        if max(last, self.counted_calls) < mark.calls:
            return f"it lacks the last of {mark.calls} calls"
        return ""


def whose(connection: sqlite3.Connection) -> tuple[bytes, bytes] | None:
    """Return its namespace and region, None if that is not sure. Raises `sqlite3.Error` if it cannot be had now."""
    found = Found()
    _read_table(connection, "about", _Sum(), found)
    about = found.about
    return None if found.problems or not found.ours else (about[b"namespace"], about[b"region"])


def read(connection: sqlite3.Connection) -> Found:
    """Return what is whole in it. Raises `sqlite3.Error` if it cannot be had now."""
    found = Found()
    for (problem,) in _rows(connection, "PRAGMA quick_check(1)", found):
        if problem != b"ok":
            found.wrong(bytes(problem).decode("utf-8", "replace").splitlines()[-1])
    tables = [sql for (sql,) in _rows(connection, "SELECT sql FROM sqlite_master WHERE sql NOT NULL", found)]
    if sorted(map(repr, tables)) != sorted(repr(bytearray(table.encode())) for table in SCHEMA):
        found.tables = False
        found.wrong("its tables are others than this version makes")
    sums = {table: _Sum() for table in (*KEYS, "state", "calls")}
    for table, each in sums.items():
        _read_table(connection, table, each, found)
    _weigh(found, sums)
    _make_sense(found)
    return found


@dataclass
class _Sum:
    rows: int = 0
    total: int = 0
    bad: int = 0


def _rows(connection: sqlite3.Connection, sql: str, found: Found) -> Iterator[tuple[Any, ...]]:
    """Yield the rows that can be read, and note why others cannot."""
    try:
        yield from connection.execute(sql)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter is raised for its words, or for names
        if not_now(error):
            raise
        found.wrong(str(error))


def _read_table(connection: sqlite3.Connection, table: str, its: _Sum, found: Found) -> None:
    for row in _rows(connection, f"SELECT * FROM {table}", found):  # noqa: S608 - names of our own
        if _as_written(table, row):
            its.rows += 1
            its.total += row[-1]
            _take(found, table, row[:-1])
        else:
            its.bad += 1
    if its.bad:
        found.problems.append(f"{its.bad} damaged {'row' if its.bad == 1 else 'rows'} in {table}")


def _as_written(table: str, row: tuple[Any, ...]) -> bool:
    *columns, check = row[1:] if table == "state" else row
    text = {"slots": 2, "state": -1, "flushes": -1}.get(table)  # the column that `checksum` takes as it is
    try:
        return (text is None or type(columns[text]) is bytes) and bool(check == checksum(table, *columns))
    except (TypeError, ValueError, IndexError, struct.error):
        return False


def _take(found: Found, table: str, columns: tuple[Any, ...]) -> None:
    """Add a row to what was found."""
    stored = found.stored
    if table == "state":
        _one, rounds, calls, sums = columns
        found.state = State.of(rounds, calls, sums)
    elif table == "about":
        found.about[columns[0]] = columns[1]
    elif table == "actors":
        number, bucket, owner, id_, seq, base, *flags = columns
        stored.actors[number] = StoredActor(Head(bucket, owner, id_, seq, base, *map(bool, flags)))
    elif table == "slots":
        number, kind, key, *slot = columns
        if number in stored.actors:
            stored.actors[number].slots[SlotKind(kind), key] = Slot(*slot)
    elif table == "flushes":
        number, seq, base, totals = columns
        if number in stored.actors:
            stored.actors[number].flushes[seq] = (base, unpacked(totals))
    elif table == "early":
        kind, name, amount = columns
        stored.early[SlotKind(kind), name] = amount
    elif table == "calls":
        call, name, amount = columns
        stored.calls[call] = (name, amount)
    else:
        name, at = columns
        stored.expiries[name] = at


def _weigh(found: Found, sums: dict[str, _Sum]) -> None:
    """Compare with table ``state``: are rows missing, or as they were before?"""
    calls, state = found.stored.calls, found.state
    about = found.about
    if found.ours:
        found.stored.namespace, found.stored.region = about[b"namespace"], about[b"region"]
        found.stored.always, found.stored.buckets = bool(about[b"always"]), about.get(b"buckets")
    else:
        found.problems.append("whose it is, it does not say")
    if state is None:
        found.problems.append("how much there must be, it does not say")
        return
    gone = set(range(state.calls + 1, max(calls, default=0) + 1)) - calls.keys()
    if len(gone) > sums["calls"].bad:
        found.problems.append(f"{len(gone)} calls are missing")
    must = {table: _Sum(*each) for table, each in zip(KEYS, state.sums, strict=True)}
    found.summed = all(sums[table] == must[table] for table in KEYS)
    found.counted = all(
        sums[table].rows + sums[table].bad == must[table].rows
        and (sums[table].bad or sums[table].total == must[table].total)
        for table in KEYS
    )
    if not found.summed and not any(each.bad for each in sums.values()):
        found.problems.append("rows are missing, or as they were before")


def _make_sense(found: Found) -> None:
    """Leave out rows that no recorder ever kept."""
    stored = found.stored
    for number in list(stored.actors):
        problem = _senseless(stored, stored.actors[number])
        if problem:
            found.problems.append(problem)
            found.summed = False
            del stored.actors[number]
    old = [call for call in stored.calls if call <= found.counted_calls]
    if old:
        found.problems.append(f"{len(old)} calls that are counted already")
        for call in old:
            del stored.calls[call]


def _senseless(stored: Stored, actor: StoredActor) -> str:
    head = actor.head
    if stored.buckets is None or head.bucket >= stored.buckets:
        return f"an actor in bucket {head.bucket} of {stored.buckets}"
    prefix = b"{%b:%d}:c:" % (stored.namespace, head.bucket)
    for _kind, key in actor.slots:
        if not key.startswith(prefix):
            return f"a slot of another bucket, {quoted(key)}"
    latest = max(actor.flushes, default=0)
    if head.unanswered and latest > head.base:
        for kind, each in zip(SlotKind, actor.flushes[latest][1], strict=True):
            for key, total in each.items():
                if (kind, key) not in actor.slots:  # it is as much as the flush sent, or more
                    actor.slots[kind, key] = Slot(total, 0, 0)
    return ""
