"""What stands in the file of a journal: its tables, what is written to them, and what is read must make sense."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from redis_counters.errors import quoted
from redis_counters.protocol.flushes import Totals
from redis_counters.protocol.journal import Changes, Head, Slot, Stored, StoredActor
from redis_counters.protocol.slots import Kind

APPLICATION = 0x7263_6A6C  # SQLite's application id: "rcjl"
VERSION = 1
SCHEMA = (
    "CREATE TABLE about(name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    "CREATE TABLE actors(actor INTEGER PRIMARY KEY, bucket, owner, id, seq, base, exact, healing, blurred, unanswered, "
    "folding, behind)",
    "CREATE TABLE slots(actor, kind, key, total, acknowledged, applied, PRIMARY KEY(actor, kind, key)) WITHOUT ROWID",
    "CREATE TABLE flushes(actor, seq, base, totals, PRIMARY KEY(actor, seq)) WITHOUT ROWID",
    "CREATE TABLE early(kind, name, amount, PRIMARY KEY(kind, name)) WITHOUT ROWID",
    "CREATE TABLE calls(call INTEGER PRIMARY KEY, name, amount)",
    "CREATE TABLE expiries(name PRIMARY KEY, at) WITHOUT ROWID",
)


class Damaged(Exception):  # noqa: N818 - the names say what happened, as in errors.py
    """A journal cannot be understood."""


def prepare(path: Path, stored: Stored) -> None:
    """The file is a whole journal with nothing in it."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        os.chmod(path, 0o600)
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute("BEGIN")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        for table in SCHEMA:
            connection.execute(table)
        about = {"namespace": stored.namespace, "region": stored.region, "always": stored.always, "buckets": None}
        connection.executemany("INSERT INTO about VALUES (?, ?)", list(about.items()))
        connection.execute("COMMIT")
    finally:
        connection.close()


def write(connection: sqlite3.Connection, changes: Changes) -> None:
    """The changes stand in the tables. The transaction is the caller's."""

    def run(sql: str, rows: Iterable[tuple[Any, ...]]) -> None:
        if rows:
            connection.executemany(sql, rows)

    actors = [(number,) for number in changes.gone]
    for table in ("actors", "slots", "flushes"):
        run(f"DELETE FROM {table} WHERE actor = ?", actors)  # noqa: S608 - a name from the line above
    run(
        "INSERT OR REPLACE INTO actors VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(number, *head) for number, head in changes.heads],
    )
    run(
        "INSERT OR REPLACE INTO slots VALUES (?, ?, ?, ?, ?, ?)",
        [(number, int(kind), key, *slot) for number, kind, key, slot in changes.slots],
    )
    run(
        "DELETE FROM slots WHERE actor = ? AND kind = ? AND key = ?",
        [(number, int(kind), key) for number, kind, key in changes.slots_gone],
    )
    run(
        "INSERT OR REPLACE INTO flushes VALUES (?, ?, ?, ?)",
        [(number, seq, base, _packed(totals)) for number, seq, base, totals in changes.flushes],
    )
    run("DELETE FROM flushes WHERE actor = ? AND seq < ?", changes.flushes_from)
    if changes.early_gone:
        connection.execute("DELETE FROM early")
    run(
        "INSERT OR REPLACE INTO early VALUES (?, ?, ?)",
        [(int(kind), name, amount) for kind, name, amount in changes.early],
    )
    run("DELETE FROM expiries WHERE name = ?", [(name,) for name, _ in changes.expiries])
    run("INSERT INTO expiries VALUES (?, ?)", [(name, at) for name, at in changes.expiries if at is not None])
    if changes.calls:
        connection.execute("DELETE FROM calls WHERE call <= ?", (changes.calls,))
    if changes.buckets is not None:
        connection.execute("INSERT OR REPLACE INTO about VALUES ('buckets', ?)", (changes.buckets,))


def write_call(connection: sqlite3.Connection, call: int, name: bytes, amount: int, expire_at: int | None) -> None:
    """One call stands in its table, and when its counter expires."""
    if expire_at is not None:
        connection.execute("INSERT OR REPLACE INTO expiries VALUES (?, ?)", (name, expire_at))
    # A call that was interrupted after this has no number of its own.
    connection.execute("INSERT OR REPLACE INTO calls VALUES (?, ?, ?)", (call, name, amount))


@contextlib.contextmanager
def understood() -> Iterator[None]:
    """What reading stumbles over is raised as Damaged, unless the file may be good and only cannot be had now."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"its content makes no sense: {error!r}") from error
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise
        raise Damaged(str(error)) from error


def read(connection: sqlite3.Connection, namespace: bytes, region: bytes) -> Stored | None:
    """Return all of it, None if it belongs to another namespace or region. To be `understood`."""
    _check_tables(connection)
    about = dict(_rows(connection, "SELECT name, value FROM about"))
    stored = Stored(about["namespace"], about["region"], bool(about["always"]), about["buckets"])
    if (stored.namespace, stored.region) != (namespace, region):
        return None
    _read_tables(connection, stored)
    _check_sense(stored)
    return stored


def check_header(path: Path) -> None:
    """Raises Damaged unless the file begins as a journal of this version does."""
    with open(path, "rb") as file:
        header = file.read(100)
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        raise Damaged("not an SQLite file")
    version, application = (int.from_bytes(header[at : at + 4], "big") for at in (60, 68))
    if (application, version) != (APPLICATION, VERSION):
        raise Damaged(f"not a journal of this version (application id {application:#x}, version {version})")


def _check_tables(connection: sqlite3.Connection) -> None:
    problems = [row[0] for row in _rows(connection, "PRAGMA quick_check")]
    if problems != ["ok"]:
        raise Damaged(str(problems[0]))
    tables = {row[0] for row in _rows(connection, "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    if tables != set(SCHEMA):
        raise Damaged("its tables are others than this version makes")


def _read_tables(connection: sqlite3.Connection, stored: Stored) -> None:
    for number, *columns in _rows(connection, "SELECT * FROM actors"):
        numbers, flags = columns[:5], map(bool, columns[5:])
        stored.actors[number] = StoredActor(Head(*numbers, *flags))
    for number, kind, key, *slot in _rows(connection, "SELECT * FROM slots"):
        stored.actors[number].slots[Kind(kind), key] = Slot(*slot)
    for number, seq, base, totals in _rows(connection, "SELECT * FROM flushes"):
        stored.actors[number].flushes[seq] = (base, _unpacked(totals))
    for kind, name, amount in _rows(connection, "SELECT * FROM early"):
        stored.early[Kind(kind), name] = amount
    for call, name, amount in _rows(connection, "SELECT * FROM calls ORDER BY call"):
        stored.calls[call] = (name, amount)
    stored.expiries.update(_rows(connection, "SELECT name, at FROM expiries"))


def _rows(connection: sqlite3.Connection, sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()


def _check_sense(stored: Stored) -> None:
    """Raises ValueError, TypeError for what no recorder ever kept."""
    for actor in stored.actors.values():
        head = actor.head
        _texts(head.owner, head.id)
        _amounts(head.bucket, head.seq, head.base)
        if stored.buckets is None or head.bucket >= stored.buckets:
            raise ValueError(f"an actor in bucket {head.bucket} of {stored.buckets}")
        prefix = b"{%b:%d}:c:" % (stored.namespace, head.bucket)
        for (_kind, key), slot in actor.slots.items():
            _amounts(*slot)
            if not key.startswith(prefix):
                raise ValueError(f"a slot of another bucket, {quoted(key)}")
        for seq, (base, totals) in actor.flushes.items():
            _amounts(seq, base, *(total for each in totals for total in each.values()))
        latest = max(actor.flushes, default=0)
        if head.unanswered and latest > head.base:
            for kind, each in zip(Kind, actor.flushes[latest][1], strict=True):
                if any((kind, key) not in actor.slots for key in each):
                    raise ValueError("a flush of slots that are not there")
    for (_kind, name), amount in stored.early.items():
        _texts(name)
        _amounts(amount)
    for name, amount in stored.calls.values():
        _texts(name)
        _amounts(abs(amount))


def _texts(*values: object) -> None:
    if not all(isinstance(value, bytes) for value in values):
        raise TypeError(f"{values!r} are no texts")


def _amounts(*values: object) -> None:
    if not all(isinstance(value, int) and value >= 0 for value in values):
        raise TypeError(f"{values!r} are no amounts")


def _packed(totals: Totals) -> str:
    return json.dumps([{key.decode("latin-1"): total for key, total in each.items()} for each in totals])


def _unpacked(text: str) -> Totals:
    plus, minus, shards = ({key.encode("latin-1"): total for key, total in each.items()} for each in json.loads(text))
    return plus, minus, shards
