"""A disk that is full, or too small: it is said so, nothing is half there, and it is over as soon as there is room."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from redis_counters import Event, EventKind, Unavailable
from redis_counters.drivers.journal.errors import cause
from redis_counters.drivers.journal.file import JournalFile
from redis_counters.protocol.journal.changes import Stored
from redis_counters.protocol.write.slot_totals import SlotKind
from tests.faces.either import FACES, Either, truth
from tests.journal.flipping import changes
from tests.journal.test_directory import full, mounted
from tests.journal.test_take_over import kinds, told
from tests.servers import RealServer

KIB = 1024


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    yield from mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=1m", "tmpfs")


@pytest.fixture(params=range(4, 100, 4))
def tiny(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    yield from mounted(tmp_path / "tiny", "-t", "tmpfs", "-o", f"size={request.param}k", "tmpfs")


def made(directory: Path, *, always: bool = False) -> JournalFile:
    return JournalFile.make(directory, Stored(b"rc", b"main", always), lambda: "small")


def used(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.iterdir() if path.name != "filler")


def test_too_small(tiny: Path) -> None:
    """Whatever its size: a journal is made and written, or there is none and the disk is said to be full."""
    error: Exception | None = None
    try:
        file = made(tiny)
    except (OSError, sqlite3.Error) as caught:
        error = caught
    else:
        error = _written(file, 200)
        file.remove()
    assert error is None or cause(error, tiny) == "the disk is full"
    assert list(tiny.iterdir()) == []


def _written(file: JournalFile, times: int) -> Exception | None:
    for number in range(times):
        try:
            file.write(changes(early=[(SlotKind.PLUS, b"%d" % number * 20, 1)]))
        except (OSError, sqlite3.Error) as error:
            return error
    return None


@pytest.mark.parametrize("always", [False, True])
def test_the_log_takes_no_more_than_it_needs(small: Path, always: bool) -> None:
    """Written for a long time, on a disk of 1 MiB: what is in the log goes to the file, which stays as small."""
    file = made(small, always=always)
    most = 0
    for number in range(1, 1201):
        if always:
            file.append(number, b"x", 1, None)
            if number % 100:
                continue
        file.write(changes(early=[(SlotKind.PLUS, b"%d" % (number % 50), number)], calls=number if always else 0))
        most = max(most, used(small))
    assert most < 700 * KIB
    file.remove()


def test_a_large_write_does_not_stay_in_the_log(small: Path) -> None:
    """Half a megabyte at once; the log is as small as ever when that is in the file."""
    file = made(small)
    file.write(changes(early=[(SlotKind.PLUS, b"%06d" % number * 8, 1) for number in range(5000)]))
    for number in range(300):
        file.write(changes(early=[(SlotKind.PLUS, b"x", number)]))
    [log] = small.glob("*-wal")
    assert log.stat().st_size < 600 * KIB
    file.remove()


def test_what_is_in_the_file_already_makes_room(small: Path) -> None:
    """The disk is full, and the log is what fills it: it is emptied, and written again; nothing fails."""
    file = made(small)
    for number in range(60):
        file.write(changes(early=[(SlotKind.PLUS, b"x", number)]))
    full(small)
    before = used(small)
    for number in range(200):
        file.write(changes(early=[(SlotKind.PLUS, b"x", number)]))
    assert used(small) <= before
    file.remove()


@pytest.mark.parametrize("face", FACES)
def test_full_for_a_while(any_server: RealServer, small: Path, face: str) -> None:
    """While Redis is away, too: it is said that the disk is full; with room again, all is recorded at the end."""
    events: list[Event] = []

    async def main() -> None:
        options: dict[str, Any] = {"journal": small, "flush_interval": 0.005, "observer": events.append}
        counters = Either.url(face, "redis://localhost:1", **options)
        counters.incr("x")
        with suppress(Unavailable):
            await counters.flush(0.3)
        filler = full(small)
        for number in range(280):
            counters.incr(f"n{number}" * 20)
            counters.incr("x")
        while EventKind.JOURNAL_FAILED not in kinds(events):
            await asyncio.sleep(0.01)
        filler.unlink()
        with suppress(Unavailable):
            await counters.close(0.1)

    asyncio.run(asyncio.wait_for(main(), 60))
    [failed] = [event for event in events if event.kind is EventKind.JOURNAL_FAILED]
    assert failed.message == f"{small}: the disk is full; trying again"
    assert EventKind.JOURNAL_TAKEN_OVER in kinds(asyncio.run(told(any_server, face, small)))
    names = [f"n{number}" * 20 for number in range(280)]
    assert truth(any_server, ["x", *names]) == {b"x": 281} | {name.encode(): 1 for name in names}
