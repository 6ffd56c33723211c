"""A journal that cannot be read is set aside and reported: nothing of it is told, and nothing of it is lost."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from redis_counters import EventKind
from tests.faces.either import FACES, truth
from tests.journal.processes import run
from tests.journal.test_take_over import AWAY, kinds, told
from tests.servers import RealServer


def cut(length: int) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        content = path.read_bytes()
        assert len(content) > length
        path.write_bytes(content[:length])

    return damage


def overwritten(path: Path) -> None:
    """A page in the middle holds something else."""
    content = bytearray(path.read_bytes())
    content[4096:8192] = b"\xa5" * 4096
    path.write_bytes(content)


def text(path: Path) -> None:
    path.write_text("this is no journal\n" * 500)


def sql(*statements: str) -> Callable[[Path], None]:
    """Whole for SQLite, and nothing that was ever written."""

    def damage(path: Path) -> None:
        connection = sqlite3.connect(path)
        for statement in statements:
            connection.execute(statement)
        connection.commit()
        connection.close()

    return damage


DAMAGES = {
    "nothing left": cut(0),
    "a part of the header": cut(60),
    "one page": cut(4096),
    "half a page less": cut(3 * 4096 - 2000),
    "a page overwritten": overwritten,
    "a text": text,
    "another application": sql("PRAGMA application_id = 7"),
    "another version": sql("PRAGMA user_version = 2"),
    "a table less": sql("DROP TABLE slots"),
    "a column more": sql("ALTER TABLE actors ADD COLUMN mood"),
    "a negative total": sql("UPDATE early SET amount = -5"),
    "an amount that is none": sql("UPDATE early SET amount = 'five'"),
    "a name that is none": sql("UPDATE early SET name = 7 WHERE amount > 5"),
    "a kind that is none": sql("UPDATE early SET kind = 9 WHERE amount > 5"),
    "no namespace": sql("DELETE FROM about WHERE name = 'namespace'"),
    "a slot of nobody": sql("INSERT INTO slots VALUES (99, 0, x'00', 5, 0, 0)"),
    "an actor without buckets": sql("INSERT INTO actors VALUES (1, 0, x'41', x'', 0, 0, 0, 0, 0, 0, 0, 0)"),
    "a flush that is none": sql(
        "UPDATE about SET value = 16 WHERE name = 'buckets'",
        "INSERT INTO actors VALUES (1, 0, x'41', x'', 1, 0, 0, 0, 0, 1, 0, 0)",
        "INSERT INTO flushes VALUES (1, 1, 0, '[{\"a\": 1}]')",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_set_aside(any_server: RealServer, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """Whatever is wrong with it: the file is there by another name, byte by byte; the sound one beside it is told."""
    run(AWAY, "redis://localhost:1", tmp_path, "blocking", "interval")
    [path] = tmp_path.glob("*.journal")
    run(AWAY, "redis://localhost:1", tmp_path, "blocking", "interval")
    sql("PRAGMA wal_checkpoint(TRUNCATE)")(path)  # all of it is in the file itself
    damage(path)
    content = path.read_bytes()
    events = asyncio.run(told(any_server, "blocking", tmp_path))
    assert sorted(kinds(events), key=str) == [EventKind.JOURNAL_DAMAGED, EventKind.JOURNAL_TAKEN_OVER]
    [damaged] = [event for event in events if event.kind is EventKind.JOURNAL_DAMAGED]
    assert str(path) in damaged.message
    aside = path.with_name(path.name + ".damaged")
    assert aside.name in damaged.message
    assert list(tmp_path.iterdir()) == [aside]
    assert aside.read_bytes() == content
    assert truth(any_server, ["x", "y", "z"]) == {b"x": 10, b"y": 5, b"z": -3}
    assert asyncio.run(told(any_server, "blocking", tmp_path)) == [], "once"


@pytest.mark.parametrize("face", FACES)
def test_a_damaged_log(any_server: RealServer, tmp_path: Path, face: str) -> None:
    """The end of the write-ahead log is missing: what was written before is told, and no more than was counted."""
    run(AWAY, "redis://localhost:1", tmp_path, face, "always")
    [log] = tmp_path.glob("*.journal-wal")
    log.write_bytes(log.read_bytes()[: log.stat().st_size * 2 // 3])
    events = asyncio.run(told(any_server, face, tmp_path))
    assert kinds(events) == [EventKind.JOURNAL_TAKEN_OVER]
    values = truth(any_server, ["x", "y", "z"])
    assert 0 <= values[b"x"] <= 10
    assert values[b"y"] <= 5
    assert values[b"z"] >= -3


def test_what_stands_beside_is_left_alone(any_server: RealServer, tmp_path: Path) -> None:
    """Files of other people in the directory are neither read nor moved."""
    others = {"notes.txt": b"mine", "other.journal": b"not ours", "rc-x.journal.damaged": b"old", "x.lock": b""}
    for name, content in others.items():
        (tmp_path / name).write_bytes(content)
    run(AWAY, "redis://localhost:1", tmp_path, "blocking", "interval")
    assert kinds(asyncio.run(told(any_server, "blocking", tmp_path))) == [EventKind.JOURNAL_TAKEN_OVER]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == others
