"""What stands in the file of a journal: its tables, and what is written to them. `reading` reads it."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from redis_counters.drivers.journal.checks import Ledger, checksum, group, slot_checksum, text_checksum
from redis_counters.protocol.journal.changes import Changes, Stored
from redis_counters.protocol.write.flushes import Totals
from redis_counters.protocol.write.slot_totals import SlotKind

APPLICATION = 0x7263_6A6C  # SQLite's application id: "rcjl"
VERSION = 2  # 1 had no checksums; the next one differs in two bits or more (4): one that flipped is no other version
PAGE = 4096  # bytes
LOG = 128  # pages that the log may have before they go to the file itself
SCHEMA = (
    "CREATE TABLE state(one INTEGER PRIMARY KEY, rounds, calls, sums, chk)",
    "CREATE TABLE about(name PRIMARY KEY, value, chk) WITHOUT ROWID",
    "CREATE TABLE actors(actor INTEGER PRIMARY KEY, bucket, owner, id, seq, base, exact, healing, blurred, unanswered, "
    "folding, behind, chk)",
    "CREATE TABLE slots(actor, kind, key, total, acknowledged, applied, chk, PRIMARY KEY(actor, kind, key)) "
    "WITHOUT ROWID",
    "CREATE TABLE flushes(actor, seq, base, totals, chk, PRIMARY KEY(actor, seq)) WITHOUT ROWID",
    "CREATE TABLE early(kind, name, amount, chk, PRIMARY KEY(kind, name)) WITHOUT ROWID",
    "CREATE TABLE calls(call INTEGER PRIMARY KEY, name, amount, chk)",
    "CREATE TABLE expiries(name PRIMARY KEY, at, chk) WITHOUT ROWID",
)


def connect(path: Path) -> sqlite3.Connection:
    """Return the journal, open. Nothing is written to it before something is to be kept."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0.0)
    connection.text_factory = bytearray  # there is no text in it; if there seems to be, that is no reason to fail
    # Nobody else has any business with it; without shared memory there is no mapping that a full disk could break.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
    return connection


def prepare(path: Path, stored: Stored, *, rounds: int = 0, calls: int = 0) -> Ledger:
    """The file is a whole journal with all of this in it, and on the disk. Returns its checksums.

    ``rounds``, ``calls``: that were kept before; of the calls, these are the last.
    """
    connection = connect(path)
    try:
        os.chmod(path, 0o600)
        connection.execute(f"PRAGMA page_size = {PAGE}")
        # Not with a log yet: when the disk is full, what is in it would stay there in silence.
        connection.execute("PRAGMA journal_mode = MEMORY").fetchall()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute("BEGIN")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        for table in SCHEMA:
            connection.execute(table)
        ledger = Ledger()
        ledger.rounds = rounds
        _write_state(connection, ledger)
        for name, value in (
            (b"namespace", stored.namespace),
            (b"region", stored.region),
            (b"always", int(stored.always)),
        ):
            _write_about(connection, ledger, name, value)
        write(connection, everything(stored), ledger)
        for number, (name, amount) in stored.calls.items():
            write_call(connection, number, name, amount, None, ledger)
        if calls > ledger.last:
            ledger.calls = ledger.last = calls
            _write_state(connection, ledger)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        return ledger
    finally:
        connection.close()


def everything(stored: Stored) -> Changes:
    """Return all of it, but for calls, as what has changed."""
    return Changes(
        buckets=stored.buckets,
        heads=[(number, actor.head) for number, actor in stored.actors.items()],
        slots=[
            (number, *which, slot) for number, actor in stored.actors.items() for which, slot in actor.slots.items()
        ],
        slots_gone=[],
        flushes=[
            (number, seq, base, totals)
            for number, actor in stored.actors.items()
            for seq, (base, totals) in actor.flushes.items()
        ],
        flushes_from=[],
        gone=[],
        early=[(*which, amount) for which, amount in stored.early.items()],
        early_gone=False,
        expiries=list(stored.expiries.items()),
        calls=0,
        moved=False,
        vital=True,
    )


def write(connection: sqlite3.Connection, changes: Changes, ledger: Ledger) -> None:
    """The changes stand in the tables. The transaction is the caller's; if it fails, the ledger is of no use."""

    def run(sql: str, rows: Iterable[tuple[Any, ...]]) -> None:
        if rows:
            connection.executemany(sql, rows)

    actors = [(number,) for number in changes.gone]
    for number in changes.gone:
        ledger.drop_all("actors", number)
        ledger.drop_all("flushes", number)
        for kind in SlotKind:
            ledger.drop_all("slots", group(number, kind))
    for table in ("actors", "slots", "flushes"):
        run(f"DELETE FROM {table} WHERE actor = ?", actors)  # noqa: S608 - a name from the line above
    run("INSERT OR REPLACE INTO actors VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", _actors(changes, ledger))
    run("INSERT OR REPLACE INTO slots VALUES (?, ?, ?, ?, ?, ?, ?)", _slots(changes, ledger))
    for number, kind, key in changes.slots_gone:
        ledger.drop("slots", group(number, kind), key)
    run(
        "DELETE FROM slots WHERE actor = ? AND kind = ? AND key = ?",
        [(number, int(kind), key) for number, kind, key in changes.slots_gone],
    )
    run("INSERT OR REPLACE INTO flushes VALUES (?, ?, ?, ?, ?)", _flushes(changes, ledger))
    for number, first in changes.flushes_from:
        ledger.drop_flushes(number, first)
    run("DELETE FROM flushes WHERE actor = ? AND seq < ?", changes.flushes_from)
    if changes.early_gone:
        ledger.drop_all("early", 0)
        connection.execute("DELETE FROM early")
    run("INSERT OR REPLACE INTO early VALUES (?, ?, ?, ?)", _early(changes, ledger))
    for name, at in changes.expiries:
        _write_expiry(connection, ledger, name, at)
    if changes.calls:
        connection.execute("DELETE FROM calls WHERE call <= ?", (changes.calls,))
    if changes.buckets not in (None, ledger.buckets):
        ledger.buckets = changes.buckets
        _write_about(connection, ledger, b"buckets", changes.buckets)
    ledger.rounds += 1
    ledger.calls = max(ledger.calls, changes.calls)
    ledger.last = max(ledger.last, ledger.calls)
    _write_state(connection, ledger)


def write_call(
    connection: sqlite3.Connection, call: int, name: bytes, amount: int, expire_at: int | None, ledger: Ledger
) -> None:
    """One call stands in its table, and when its counter expires."""
    changed = expire_at is not None and _write_expiry(connection, ledger, name, expire_at)
    if call > ledger.last + 1:  # the journal is younger than the first calls: none is missing
        ledger.calls = call - 1
        changed = True
    ledger.last = max(ledger.last, call)
    if changed:
        _write_state(connection, ledger)
    # A call that was interrupted after this has no number of its own.
    connection.execute(
        "INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?)",
        (call, name, amount, checksum("calls", call, name, amount)),
    )


def _actors(changes: Changes, ledger: Ledger) -> list[tuple[Any, ...]]:
    rows = []
    for number, head in changes.heads:
        columns = [int(each) if isinstance(each, bool) else each for each in head]
        check = checksum("actors", number, *columns)
        ledger.put("actors", number, 0, check)
        rows.append((number, *columns, check))
    return rows


def _slots(changes: Changes, ledger: Ledger) -> list[tuple[int, int, bytes, int, int, int, int]]:
    rows = [
        (number, int(kind), key, *slot, slot_checksum(number, kind, key, *slot))
        for number, kind, key, slot in changes.slots
    ]
    ledger.put_slots(rows)
    return rows


def _flushes(changes: Changes, ledger: Ledger) -> list[tuple[Any, ...]]:
    rows = []
    for number, seq, base, totals in changes.flushes:
        packed = _packed(totals)
        check = text_checksum(packed, "flushes", number, seq, base)
        ledger.put("flushes", number, seq, check)
        rows.append((number, seq, base, packed, check))
    return rows


def _early(changes: Changes, ledger: Ledger) -> list[tuple[Any, ...]]:
    rows = []
    for kind, name, amount in changes.early:
        check = checksum("early", int(kind), name, amount)
        ledger.put("early", 0, (int(kind), name), check)
        rows.append((int(kind), name, amount, check))
    return rows


def _write_expiry(connection: sqlite3.Connection, ledger: Ledger, name: bytes, at: int | None) -> bool:
    """When the counter expires stands in its table. Returns whether that is new."""
    if at is None:
        ledger.drop("expiries", 0, name)
        connection.execute("DELETE FROM expiries WHERE name = ?", (name,))
        return True
    check = checksum("expiries", name, at)
    changed = ledger.put("expiries", 0, name, check)
    if changed:
        connection.execute("INSERT OR REPLACE INTO expiries VALUES (?, ?, ?)", (name, at, check))
    return changed


def _write_about(connection: sqlite3.Connection, ledger: Ledger, name: bytes, value: int | bytes | None) -> None:
    check = checksum("about", name, value)
    if ledger.put("about", 0, name, check):
        connection.execute("INSERT OR REPLACE INTO about VALUES (?, ?, ?)", (name, value, check))


def _write_state(connection: sqlite3.Connection, ledger: Ledger) -> None:
    connection.execute("INSERT OR REPLACE INTO state VALUES (1, ?, ?, ?, ?)", ledger.state())


def _packed(totals: Totals) -> bytes:
    return json.dumps([{key.decode("latin-1"): total for key, total in each.items()} for each in totals]).encode()


def unpacked(text: bytes) -> Totals:
    """Return the totals of a flush. Raises ValueError, AttributeError."""
    plus, minus, shards = ({key.encode("latin-1"): total for key, total in each.items()} for each in json.loads(text))
    return plus, minus, shards
