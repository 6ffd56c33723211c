"""Checksums of a journal: one in each row, and over the rows of each table their number and the sum of theirs.

A row's checksum is over its table and all of its columns, so that no row passes under another name. Number and sum
stand in the row of table ``state``, written in the same transaction: a row that is missing, or as it was before, is
noticed too. What is to be subtracted when a row is replaced is remembered here, for asking SQLite takes longer.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Hashable, Iterable
from itertools import chain
from typing import NamedTuple
from zlib import crc32

TABLES = ("about", "actors", "slots", "flushes", "early", "expiries")
"""Tables with number and sum. (Calls have numbers without a gap.)"""

_SLOT = struct.Struct(">5sqBqqq")
_SUMS = struct.Struct(f">{2 * len(TABLES)}Q")


def checksum(table: str, *columns: int | bytes | None) -> int:
    """Return the checksum of a row. Of columns with much text, the last one goes into `text_checksum`."""
    return crc32(repr((table, *columns)).encode())


def text_checksum(text: bytes, table: str, *columns: int) -> int:
    """Return that of a row with such a column: the same, but faster."""
    return crc32(text, checksum(table, *columns))


def slot_checksum(actor: int, kind: int, key: bytes, total: int, acknowledged: int, applied: int) -> int:
    """Return that of a row of table slots: the same, but as fast as it can be."""
    return crc32(key, crc32(_SLOT.pack(b"slots", actor, kind, total, acknowledged, applied)))


def group(actor: int, kind: int) -> int:
    """Return the group of a slot in the ledger: a key needs no pair of its own then."""
    return actor * 4 + kind


class State(NamedTuple):
    """The one row of table ``state``."""

    rounds: int  # transactions, but for those of single calls
    calls: int  # calls up to this number are in the totals; those that have rows follow
    sums: tuple[tuple[int, int], ...]  # of each table, in their order: how many rows, and the sum of their checksums

    @classmethod
    def of(cls, rounds: int, calls: int, sums: bytes) -> State:
        """Return it out of its row. Raises `struct.error`."""
        numbers = _SUMS.unpack(sums)
        return cls(rounds, calls, tuple(zip(numbers[::2], numbers[1::2], strict=True)))


class Ledger:
    """The checksums of all rows of an open journal, by table, group of rows and what else names the row."""

    def __init__(self) -> None:
        self.rounds = 0
        self.calls = 0
        self.buckets: int | None = None
        self.last = 0  # the last call that has a row, or the last that needs none any more
        self.rows: dict[str, dict[int, dict[Hashable, int]]] = {table: {} for table in TABLES}
        self.count = dict.fromkeys(TABLES, 0)
        self.total = dict.fromkeys(TABLES, 0)

    def state(self) -> tuple[int, int, bytes, int]:
        """Return what is to stand in the row of table ``state``, and its checksum."""
        sums = _SUMS.pack(*chain.from_iterable(zip(self.count.values(), self.total.values(), strict=True)))
        return self.rounds, self.calls, sums, text_checksum(sums, "state", self.rounds, self.calls)

    def put_slots(self, rows: Iterable[tuple[int, int, bytes, int, int, int, int]]) -> None:
        """As `put` for many slots, each a row with its checksum."""
        groups = self.rows["slots"]
        new = total = 0
        before: int | None
        for actor, kind, key, _total, _acknowledged, _applied, check in rows:
            at = actor * 4 + kind
            if at not in groups:
                groups[at] = {}
            there = groups[at]
            before = there.get(key)
            there[key] = check
            if before is None:
                new += 1
                total += check
            else:
                total += check - before
        self.count["slots"] += new
        self.total["slots"] += total

    def put(self, table: str, group: int, name: Hashable, check: int) -> bool:
        """The row is new, or replaced. Returns whether it is another one than before."""
        groups = self.rows[table]
        rows = groups.get(group)
        if rows is None:
            rows = groups[group] = {}
        before = rows.get(name)
        rows[name] = check
        if before is None:
            self.count[table] += 1
            self.total[table] += check
        else:
            self.total[table] += check - before
        return check != before

    def drop(self, table: str, group: int, name: Hashable) -> None:
        """The row is not there any more, if it was."""
        check = self.rows[table].get(group, {}).pop(name, None)
        if check is not None:
            self.count[table] -= 1
            self.total[table] -= check

    def drop_all(self, table: str, group: int) -> None:
        """No row of the group is there any more."""
        rows = self.rows[table].pop(group, {})
        self.count[table] -= len(rows)
        self.total[table] -= sum(rows.values())

    def drop_flushes(self, actor: int, first: int) -> None:
        """No flush of the actor before this one is there any more."""
        flushes = self.rows["flushes"].get(actor, {})
        for seq in [seq for seq in flushes if isinstance(seq, int) and seq < first]:
            self.drop("flushes", actor, seq)


def ledger_of(connection: sqlite3.Connection) -> Ledger:
    """Return the checksums that stand in an open journal, which is whole."""
    ledger = Ledger()
    (ledger.rounds, ledger.calls), *_ = connection.execute("SELECT rounds, calls FROM state")
    (last,), *_ = connection.execute("SELECT max(call) FROM calls")
    ledger.last = max(ledger.calls, last or 0)
    for table, names in (
        ("about", "0, name"),
        ("actors", "actor, 0"),
        ("flushes", "actor, seq"),
        ("expiries", "0, name"),
    ):
        for actor, name, check in connection.execute(f"SELECT {names}, chk FROM {table}"):  # noqa: S608 - names from above
            ledger.put(table, actor, name, check)
    for actor, kind, key, check in connection.execute("SELECT actor, kind, key, chk FROM slots"):
        ledger.put("slots", group(actor, kind), key, check)
    for kind, name, check in connection.execute("SELECT kind, name, chk FROM early"):
        ledger.put("early", 0, (kind, name), check)
    return ledger
