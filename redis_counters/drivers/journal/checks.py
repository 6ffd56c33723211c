"""Checksums of a journal: one in each row, and for each table the number of its rows and the sum of their checksums.

A row's checksum is over its table and all of its columns, so that no row passes under another name. Number and sum are
in the row of table ``state``, written in the same transaction: so a row that is missing, or as it was before, is
noticed too. The ledger keeps in memory what is to be subtracted when a row is replaced: asking SQLite takes longer.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple
from zlib import crc32

_SLOT = struct.Struct(">5sqBqqq")
_SUMS = struct.Struct(">12Q")


def checksum(table: str, *columns: Any) -> int:
    """Return the checksum of a row. Raises TypeError, ValueError, `struct.error` for columns that are none of ours."""
    if table == "slots":
        return slot_checksum(*columns)
    if table in ("state", "flushes"):  # the last column has much text
        *columns, text = columns  # type: ignore[assignment]
        return crc32(text, crc32(repr((table, *columns)).encode()))
    return crc32(repr((table, *columns)).encode())


def slot_checksum(actor: int, kind: int, key: bytes, total: int, acknowledged: int, applied: int) -> int:
    """Return the checksum of a row of table slots: as fast as it can be."""
    return crc32(key, crc32(_SLOT.pack(b"slots", actor, kind, total, acknowledged, applied)))


def group(actor: int, kind: int) -> int:
    """Return the group of a slot in the ledger: a key needs no pair of its own then."""
    return actor * 4 + kind


KEYS: dict[str, Callable[[Sequence[Any]], tuple[int, Hashable]]] = {
    "about": lambda row: (0, row[0]),
    "actors": lambda row: (row[0], 0),
    "slots": lambda row: (group(row[0], row[1]), row[2]),
    "flushes": lambda row: (row[0], row[1]),
    "early": lambda row: (0, (row[0], row[1])),
    "expiries": lambda row: (0, row[0]),
}
"""The tables with number and sum, in their order; of a row, its group in the ledger and what else names it there.

(Calls have numbers without a gap.)"""


class State(NamedTuple):
    """The row of table ``state``."""

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
        self.rows: dict[str, dict[int, dict[Hashable, int]]] = {table: {} for table in KEYS}
        self.count = dict.fromkeys(KEYS, 0)
        self.total = dict.fromkeys(KEYS, 0)

    def state(self) -> tuple[int, int, bytes, int]:
        """Return the row of table ``state``, and its checksum."""
        sums = _SUMS.pack(*chain.from_iterable(zip(self.count.values(), self.total.values(), strict=True)))
        return self.rounds, self.calls, sums, checksum("state", self.rounds, self.calls, sums)

    def put_slots(self, rows: Iterable[tuple[int, int, bytes, int, int, int, int]]) -> None:
        """As `put` for many rows of table slots: as fast as it can be."""
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

    def put(self, table: str, row: Sequence[Any]) -> bool:
        """The row, with its checksum at its end, is new or replaced. Returns whether it differs from the one before."""
        at, name = KEYS[table](row)
        rows, check = self.rows[table].setdefault(at, {}), row[-1]
        before = rows.get(name)
        rows[name] = check
        self.count[table] += before is None
        self.total[table] += check - (before or 0)
        return bool(check != before)

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
    """Return the checksums in an open journal, which is whole."""
    ledger = Ledger()
    (ledger.rounds, ledger.calls), *_ = connection.execute("SELECT rounds, calls FROM state")
    (last,), *_ = connection.execute("SELECT max(call) FROM calls")
    ledger.last = max(ledger.calls, last or 0)
    for table in KEYS:
        for row in connection.execute(f"SELECT * FROM {table}"):  # noqa: S608 - names of our own
            ledger.put(table, row)
    return ledger
