"""The file of a journal: its tables, and writing to them. `reading` reads it."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from redis_counters.drivers.journal.checks import Ledger, checksum, group, slot_checksum
from redis_counters.protocol.journal.changes import Changes, Stored
from redis_counters.protocol.write.flushes import Totals
from redis_counters.protocol.write.slot_totals import SlotKind

APPLICATION = 0x7263_6A6C  # SQLite's application id: "rcjl"
VERSION = 2  # 1 had no checksums. The next is 4: two bits differ, so that a flipped bit makes no version of another
PAGE = 4096  # bytes
MAX_LOG = 128  # pages that the log may have before they go to the file itself
TABLES = {
    "state": "one INTEGER PRIMARY KEY, rounds, calls, sums, chk",
    "about": "name PRIMARY KEY, value, chk",
    "actors": "actor INTEGER PRIMARY KEY, bucket, owner, id, seq, base, exact, healing, blurred, unanswered, folding, "
    "behind, chk",
    "slots": "actor, kind, key, total, acknowledged, applied, chk, PRIMARY KEY(actor, kind, key)",
    "flushes": "actor, seq, base, totals, chk, PRIMARY KEY(actor, seq)",
    "early": "kind, name, amount, chk, PRIMARY KEY(kind, name)",
    "calls": "call INTEGER PRIMARY KEY, name, amount, chk",
    "expiries": "name PRIMARY KEY, at, chk",
}
SCHEMA = tuple(
    f"CREATE TABLE {table}({columns}){'' if 'INTEGER PRIMARY KEY' in columns else ' WITHOUT ROWID'}"
    for table, columns in TABLES.items()
)


def _insert(table: str, columns: str) -> str:
    count = columns.partition(", PRIMARY KEY(")[0].count(",") + 1
    return f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * count)})"  # noqa: S608 - names from above


_INSERT = {table: _insert(table, columns) for table, columns in TABLES.items()}


def connect(path: Path) -> sqlite3.Connection:
    """Return the journal, open. Opening writes nothing to it."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0.0)
    connection.text_factory = bytearray  # there is no text in it; if there seems to be, that is no reason to fail
    # No other process uses it; without shared memory there is no mapping that a full disk could break.
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
            _put(connection, ledger, "about", name, value)
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
    """Return all of it, but for calls, as changes."""
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
    """Write the changes to the tables. The transaction is the caller's; if it fails, the ledger is of no use."""

    def run(sql: str, rows: Iterable[tuple[Any, ...]]) -> None:
        if rows:
            connection.executemany(sql, rows)

    def put(table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        rows = [(*columns, checksum(table, *columns)) for columns in rows]
        for row in rows:
            ledger.put(table, row)
        run(_INSERT[table], rows)

    actors = [(number,) for number in changes.gone]
    for number in changes.gone:
        ledger.drop_all("actors", number)
        ledger.drop_all("flushes", number)
        for kind in SlotKind:
            ledger.drop_all("slots", group(number, kind))
    for table in ("actors", "slots", "flushes"):
        run(f"DELETE FROM {table} WHERE actor = ?", actors)  # noqa: S608 - a name from the line above
    flags = [[int(each) if isinstance(each, bool) else each for each in head] for _number, head in changes.heads]
    put("actors", [(number, *head) for (number, _), head in zip(changes.heads, flags, strict=True)])
    slots = [
        (number, int(kind), key, *slot, slot_checksum(number, kind, key, *slot))
        for number, kind, key, slot in changes.slots
    ]
    ledger.put_slots(slots)
    run(_INSERT["slots"], slots)
    for number, kind, key in changes.slots_gone:
        ledger.drop("slots", group(number, kind), key)
    run(
        "DELETE FROM slots WHERE actor = ? AND kind = ? AND key = ?",
        [(number, int(kind), key) for number, kind, key in changes.slots_gone],
    )
    put("flushes", [(number, seq, base, _packed(totals)) for number, seq, base, totals in changes.flushes])
    for number, first in changes.flushes_from:
        ledger.drop_flushes(number, first)
    run("DELETE FROM flushes WHERE actor = ? AND seq < ?", changes.flushes_from)
    if changes.early_gone:
        ledger.drop_all("early", 0)
        connection.execute("DELETE FROM early")
    put("early", [(int(kind), name, amount) for kind, name, amount in changes.early])
    for name, at in changes.expiries:
        _put_expiry(connection, ledger, name, at)
    if changes.calls:
        connection.execute("DELETE FROM calls WHERE call <= ?", (changes.calls,))
    if changes.buckets not in (None, ledger.buckets):
        ledger.buckets = changes.buckets
        _put(connection, ledger, "about", b"buckets", changes.buckets)
    ledger.rounds += 1
    ledger.calls = max(ledger.calls, changes.calls)
    ledger.last = max(ledger.last, ledger.calls)
    _write_state(connection, ledger)


def write_call(
    connection: sqlite3.Connection, call: int, name: bytes, amount: int, expire_at: int | None, ledger: Ledger
) -> None:
    """Write one call, and when its counter expires."""
    changed = expire_at is not None and _put_expiry(connection, ledger, name, expire_at)
    if call > ledger.last + 1:  # the journal is younger than the first calls: none is missing
        ledger.calls = call - 1
        changed = True
    ledger.last = max(ledger.last, call)
    if changed:
        _write_state(connection, ledger)
    # A call that is interrupted after this leaves its number to the next one.
    connection.execute(_INSERT["calls"], (call, name, amount, checksum("calls", call, name, amount)))


def _put_expiry(connection: sqlite3.Connection, ledger: Ledger, name: bytes, at: int | None) -> bool:
    """Write when the counter expires. Returns whether that is new."""
    if at is not None:
        return _put(connection, ledger, "expiries", name, at)
    ledger.drop("expiries", 0, name)
    connection.execute("DELETE FROM expiries WHERE name = ?", (name,))
    return True


def _put(connection: sqlite3.Connection, ledger: Ledger, table: str, *columns: int | bytes | None) -> bool:
    """Write one row, if it is another one than before. Returns whether it was."""
    row = (*columns, checksum(table, *columns))
    changed = ledger.put(table, row)
    if changed:
        connection.execute(_INSERT[table], row)
    return changed


def _write_state(connection: sqlite3.Connection, ledger: Ledger) -> None:
    connection.execute(_INSERT["state"], (1, *ledger.state()))


def _packed(totals: Totals) -> bytes:
    return json.dumps([{key.decode("latin-1"): total for key, total in each.items()} for each in totals]).encode()


def unpacked(text: bytes) -> Totals:
    """Return the totals of a flush. Raises ValueError, AttributeError."""
    plus, minus, shards = ({key.encode("latin-1"): total for key, total in each.items()} for each in json.loads(text))
    return plus, minus, shards
