"""A journal that is damaged is set aside and reported: what is whole in it is told, and nothing of it is lost."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
import redis

from redis_counters import EventKind
from redis_counters.drivers.journal.file import sweep
from tests.faces.either import FACES, Either, truth
from tests.journal.killing import killed_at
from tests.journal.processes import program, run
from tests.journal.test_take_over import AWAY, MODES, kinds, told
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
    content[3 * 4096 : 4 * 4096] = b"\xa5" * 4096
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


ALL = {b"x": 10, b"y": 5, b"z": -3}

# What is done to a journal, and what of it is told all the same.
DAMAGES = {
    "nothing left": (cut(0), {}),
    "a part of the header": (cut(60), {}),
    "one page": (cut(4096), {}),
    "a page less": (cut(8 * 4096 + 4), ALL),
    "half of it": (cut(5 * 4096), {}),
    "a page overwritten": (overwritten, ALL),
    "a text": (text, {}),
    "another application": (sql("PRAGMA application_id = 7"), ALL),
    "a flipped bit in the version": (sql("PRAGMA user_version = 3"), ALL),
    "a later version": (sql("PRAGMA user_version = 4"), {}),
    "a much later version": (sql("PRAGMA user_version = 9"), {}),
    "the version without checksums": (sql("PRAGMA user_version = 1"), {}),
    "a table less": (sql("DROP TABLE slots"), ALL),
    "a column more": (sql("ALTER TABLE actors ADD COLUMN mood"), ALL),
    "a negative amount": (sql("UPDATE early SET amount = -5 WHERE amount > 5"), {b"x": 0, b"y": 5, b"z": -3}),
    "an amount that is none": (sql("UPDATE early SET amount = 'five' WHERE amount > 5"), {b"x": 0, b"y": 5, b"z": -3}),
    "a higher amount": (sql("UPDATE early SET amount = amount + 1 WHERE kind = 1"), {b"x": 10, b"y": 5, b"z": 0}),
    "another name": (sql("UPDATE early SET name = x'77' WHERE amount > 5"), {b"x": 0, b"y": 5, b"z": -3}),
    "another sign": (sql("UPDATE early SET kind = 1 - kind WHERE amount > 5"), {b"x": 0, b"y": 5, b"z": -3}),
    "a kind that is none": (sql("UPDATE early SET kind = 9 WHERE amount > 5"), {b"x": 0, b"y": 5, b"z": -3}),
    "a row less": (sql("DELETE FROM early WHERE amount > 5"), {b"x": 0, b"y": 5, b"z": -3}),
    "no namespace": (sql("DELETE FROM about WHERE name = x'6e616d657370616365'"), {}),
    "a slot of nobody": (sql("INSERT INTO slots VALUES (99, 0, x'00', 5, 0, 0, 1)"), ALL),
    "nobody knows how much": (sql("DELETE FROM state"), ALL),
}


@pytest.mark.every(8, "three processes each")
@pytest.mark.parametrize(("damage", "whole"), DAMAGES.values(), ids=DAMAGES.keys())
def test_set_aside(
    any_server: RealServer, tmp_path: Path, damage: Callable[[Path], None], whole: dict[bytes, int]
) -> None:
    """Whatever is wrong with it: it is there by another name, byte by byte; what is whole in it is told, once.

    That is said. The sound one beside it is told as ever.
    """
    run(AWAY, "redis://localhost:1", tmp_path, "blocking", "interval")
    [path] = tmp_path.glob("*.journal")
    run(AWAY, "redis://localhost:1", tmp_path, "blocking", "interval")
    sql("PRAGMA wal_checkpoint(TRUNCATE)")(path)  # all of it is in the file itself
    damage(path)
    content = path.read_bytes()
    events = asyncio.run(told(any_server, "blocking", tmp_path))
    taken_over = [EventKind.JOURNAL_TAKEN_OVER] * (2 if whole else 1)
    assert sorted(kinds(events), key=str) == [EventKind.JOURNAL_DAMAGED, *taken_over]
    [damaged] = [event for event in events if event.kind is EventKind.JOURNAL_DAMAGED]
    assert str(path) in damaged.message
    aside = path.with_name(path.name + ".damaged")
    assert aside.name in damaged.message
    assert list(tmp_path.iterdir()) == [aside]
    assert aside.read_bytes() == content
    assert truth(any_server, ["x", "y", "z"]) == {name: value + whole.get(name, 0) for name, value in ALL.items()}
    assert asyncio.run(told(any_server, "blocking", tmp_path)) == [], "once"


@pytest.mark.parametrize("face", FACES)
def test_a_log_without_its_end(any_server: RealServer, tmp_path: Path, face: str) -> None:
    """What was written before is told, and no more than was counted; that it is not all is told too."""
    run(AWAY, "redis://localhost:1", tmp_path, face, "always")
    [log] = tmp_path.glob("*.journal-wal")
    content = log.read_bytes()[: log.stat().st_size * 2 // 3]
    log.write_bytes(content)
    events = asyncio.run(told(any_server, face, tmp_path))
    assert kinds(events) == [EventKind.JOURNAL_DAMAGED, EventKind.JOURNAL_TAKEN_OVER]
    assert "it lacks the last" in events[0].message
    [kept] = tmp_path.glob("*.damaged-wal")
    assert kept.read_bytes() == content
    values = truth(any_server, ["x", "y", "z"])
    assert 0 <= values[b"x"] <= 10
    assert values[b"y"] <= 5
    assert values[b"z"] >= -3


@pytest.mark.parametrize("mode", MODES)
def test_a_bit_of_a_log(any_server: RealServer, tmp_path: Path, mode: str) -> None:
    """One bit of a page that was written again later: SQLite would drop all that follows; all of it is told."""
    run(AWAY, "redis://localhost:1", tmp_path, "blocking", mode)
    [log] = tmp_path.glob("*.journal-wal")
    content = bytearray(log.read_bytes())
    content[32 + 24 + 2000] ^= 4
    log.write_bytes(content)
    events = asyncio.run(told(any_server, "blocking", tmp_path))
    assert kinds(events) == [EventKind.JOURNAL_DAMAGED, EventKind.JOURNAL_TAKEN_OVER]
    assert "all of it could be read" in events[0].message
    assert sorted(path.name.partition(".journal")[2] for path in tmp_path.iterdir()) == [".damaged", ".damaged-wal"]
    assert truth(any_server, ["x", "y", "z"]) == ALL


@pytest.mark.parametrize("content", [b"", b"\0" * 44, b"x" * 7])
def test_nobody_knows_how_far_it_was_written(any_server: RealServer, tmp_path: Path, content: bytes) -> None:
    """What the lock file says of that is damaged: all that is in the journal is told, and so is this."""
    run(AWAY, "redis://localhost:1", tmp_path, "blocking", "always")
    [lock] = tmp_path.glob("*.lock")
    lock.write_bytes(content)
    events = asyncio.run(told(any_server, "blocking", tmp_path))
    assert kinds(events) == [EventKind.JOURNAL_DAMAGED, EventKind.JOURNAL_TAKEN_OVER]
    assert "lock file" in events[0].message
    assert truth(any_server, ["x", "y", "z"]) == ALL


FLUSHED_AND_NOT = program("""
    counters = counters_of(flush_interval=60)
    for name in ("x", "y", "x"):
        counters.incr(name, 5)
    counters.decr("z", 3)
    await done(counters.flush())
    counters.incr("x")
    await done(counters.flush())
    with counters._runner.recording.order:  # not between a transaction and the mark that says so
        killed()
""")


@pytest.mark.parametrize("mode", MODES)
def test_a_log_that_ends_earlier(any_server: RealServer, tmp_path: Path, mode: str) -> None:
    """Cut behind any of its writes, it is as it was before Redis was told: nothing counts twice, and it is said."""
    run(FLUSHED_AND_NOT, any_server.url, tmp_path / "first", "blocking", mode)
    files = {path.name: path.read_bytes() for path in (tmp_path / "first").iterdir()}
    [log] = [name for name in files if name.endswith("-wal")]
    commits = [
        at + 24 + 4096
        for at in range(32, len(files[log]) - 24 - 4096, 24 + 4096)
        if int.from_bytes(files[log][at + 4 : at + 8], "big")
    ]
    assert len(commits) >= 4
    for number, size in enumerate([0, *commits]):
        directory = tmp_path / str(number)
        directory.mkdir()
        for name, content in files.items():
            (directory / name).write_bytes(content[:size] if name == log else content)
        assert kinds(asyncio.run(told(any_server, "blocking", directory)))[0] is EventKind.JOURNAL_DAMAGED
        assert truth(any_server, ["x", "y", "z"]) == {b"x": 11, b"y": 5, b"z": -3}, size


@pytest.mark.parametrize("points", ["sql", "files"])
@pytest.mark.slow("a fork for each point")
def test_killed_while_it_is_set_aside(any_server: RealServer, tmp_path: Path, points: str) -> None:
    """At any instant: what is whole in it is told once, and all of the damaged one is kept."""
    run(AWAY, "redis://localhost:1", tmp_path / "first", "blocking", "always")
    files = {path.name: path.read_bytes() for path in (tmp_path / "first").iterdir()}
    [log] = [name for name in files if name.endswith("-wal")]
    bad = bytearray(files[log])
    bad[32 + 24 + 2000] ^= 4
    for number in count():
        directory = tmp_path / str(number)
        directory.mkdir()
        for name, content in files.items():
            (directory / name).write_bytes(bad if name == log else content)
        options: dict[str, object] = {"flush_interval": 60, "journal": directory, "buckets": 2}

        async def work(say: Callable[[str], None], options: dict[str, object] = options) -> None:
            async with Either.on("blocking", any_server, **options) as counters:
                await counters.flush()

        killed, _said = killed_at(points, number, work)
        asyncio.run(told(any_server, "blocking", directory))
        assert truth(any_server, ["x", "y", "z"]) == ALL, number
        kept = {path.name.partition(".journal")[2]: path.read_bytes() for path in directory.iterdir()}
        assert kept[".damaged"] == files[log.removesuffix("-wal")], number
        assert kept[".damaged-wal"] == bad, number
        with redis.Redis(port=any_server.port) as client:
            client.flushdb()
        if not killed:
            break
    assert number > 5


def test_who_cannot_finish_it_holds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody was killed who set it aside, and whoever comes next may not write there: another one may."""
    (tmp_path / "rc-x.mended").write_bytes(b"whole")
    (tmp_path / "rc-x.lock").touch()

    def denied(*_: object) -> None:
        raise PermissionError

    descriptors = len(os.listdir("/dev/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", denied)
        assert sweep(tmp_path) == []
    assert len(os.listdir("/dev/fd")) == descriptors
    assert sweep(tmp_path) == [tmp_path / "rc-x.journal"]


def test_what_stands_beside_is_left_alone(any_server: RealServer, tmp_path: Path) -> None:
    """Files of other people in the directory are neither read nor moved."""
    others = {"notes.txt": b"mine", "other.journal": b"not ours", "rc-x.journal.damaged": b"old", "x.lock": b""}
    for name, content in others.items():
        (tmp_path / name).write_bytes(content)
    run(AWAY, "redis://localhost:1", tmp_path, "blocking", "interval")
    assert kinds(asyncio.run(told(any_server, "blocking", tmp_path))) == [EventKind.JOURNAL_TAKEN_OVER]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == others


def test_what_is_no_file_is_passed_over(any_server: RealServer, tmp_path: Path) -> None:
    """By the name of a journal: a pipe, whose reader would wait for ever, a directory, a link to nothing."""
    run(AWAY, "redis://localhost:1", tmp_path, "blocking", "interval")
    os.mkfifo(tmp_path / "rc-a.journal")
    (tmp_path / "rc-b.journal").mkdir()
    (tmp_path / "rc-c.journal").symlink_to(tmp_path / "nothing")
    assert kinds(asyncio.run(told(any_server, "blocking", tmp_path))) == [EventKind.JOURNAL_TAKEN_OVER]
    assert truth(any_server, ["x", "y", "z"]) == ALL
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rc-a.journal", "rc-b.journal", "rc-c.journal"]
