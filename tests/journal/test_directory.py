"""Where a journal can be: what cannot be written is refused or reported, and never taken for durable."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from redis_counters import Event, EventKind, NotRecorded, Unavailable, UsageError
from tests.faces.either import FACES, Either, truth
from tests.journal.processes import ROOT, program, run
from tests.journal.test_take_over import kinds, told
from tests.needs import lacks
from tests.servers import RealServer


def mounted(where: Path, *options: str) -> Iterator[Path]:
    """A file system of its own, for as long as the test runs."""
    where.mkdir()
    done = subprocess.run(["mount", *options, str(where)], capture_output=True, text=True)
    if done.returncode:
        lacks("mount", f"this user may not mount: {done.stderr.strip()}")
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", str(where)], check=True)


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    yield from mounted(tmp_path / "ro", "-t", "tmpfs", "-o", "ro", "tmpfs")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    yield from mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=1m", "tmpfs")


def full(directory: Path) -> Path:
    """Nothing more goes into the file system; return what fills it."""
    filler = directory / "filler"
    with open(filler, "wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                pass
    return filler


FULL = "from tests.journal.test_directory import full\n"


@pytest.mark.parametrize("face", FACES)
def test_refused_at_construction(any_server: RealServer, tmp_path: Path, face: str) -> None:
    """A path that cannot be a directory, or no path at all, is refused by the name of the option."""
    file = tmp_path / "file"
    file.write_text("x")

    async def main() -> None:
        for wrong in (file, file / "below", file / "far" / "below", "", "a\0b", "/proc/journal", "/dev/null/x"):
            with pytest.raises(UsageError, match="journal"):
                Either.url(face, any_server.url, journal=wrong)
        for wrong_type in (7, b"bytes", True, ["x"]):
            with pytest.raises(TypeError, match="journal"):
                Either.url(face, any_server.url, journal=wrong_type)
        for mode in ("sometimes", "", None):
            with pytest.raises(UsageError, match="journal_mode"):
                Either.url(face, any_server.url, journal=tmp_path, journal_mode=mode)

    asyncio.run(main())
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("below", ["", "new/journal"])
def test_a_read_only_file_system(any_server: RealServer, read_only: Path, face: str, below: str) -> None:
    """Refused when the client is made (EROFS), whether the directory is there or would have to be made."""

    async def main() -> None:
        with pytest.raises(UsageError, match=r"journal must be a directory that can be written.*Read-only|cannot be"):
            Either.url(face, any_server.url, journal=read_only / below)

    asyncio.run(main())


def test_without_a_journal_nothing_is_made(any_server: RealServer, tmp_path: Path) -> None:
    """Import and use without the option: no file, no directory, not even sqlite3."""
    text = f"""
import os, sys
os.chdir({str(tmp_path)!r})
from redis_counters import Counters
with Counters.from_url(sys.argv[1]) as counters:
    counters.incr("x")
    counters.flush()
assert "sqlite3" not in sys.modules and "redis_counters.drivers.journal.client" not in sys.modules
"""
    environment = {**os.environ, "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", text, any_server.url], check=True, cwd=ROOT, env=environment, timeout=60)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("home", [None, "/"])
def test_home_does_not_matter(any_server: RealServer, tmp_path: Path, home: str | None) -> None:
    """A relative path is one from the working directory when the client is made; nothing goes by HOME."""
    environment = {name: value for name, value in os.environ.items() if name != "HOME"}
    environment["PYTHONPATH"] = str(ROOT)
    if home is not None:
        environment["HOME"] = home
    text = """
import os, sys
from redis_counters import Counters
counters = Counters.from_url(sys.argv[1], journal="here", flush_interval=60)
os.mkdir("elsewhere")
os.chdir("elsewhere")
counters.incr("x")
counters.flush()
assert sorted(os.listdir("..")) == ["elsewhere", "here"]
assert len([name for name in os.listdir("../here") if name.endswith(".journal")]) == 1
counters.close()
assert os.listdir("../here") == os.listdir(".") == []
"""
    subprocess.run([sys.executable, "-c", text, any_server.url], check=True, cwd=tmp_path, env=environment, timeout=60)


@pytest.mark.parametrize("face", FACES)
def test_made_at_first_use(any_server: RealServer, tmp_path: Path, face: str) -> None:
    """The directory and the file are there from the first increment that is recorded, and not before."""

    async def main() -> None:
        async with Either.on(face, any_server, journal=tmp_path / "a" / "b") as counters:
            await counters.get("x")
            await counters.flush()
            assert list(tmp_path.iterdir()) == []
            counters.incr("x")
            await counters.flush()
            [journal] = (tmp_path / "a" / "b").glob("*.journal")
            assert journal.stat().st_mode & 0o777 == 0o600
            assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
        assert list((tmp_path / "a" / "b").iterdir()) == []

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_a_disk_that_fills_in_mid_run_interval(any_server: RealServer, small: Path, face: str) -> None:
    """Counting goes on; what must be recorded first waits; it is said once, and once again when it works."""
    events: list[Event] = []

    async def main() -> None:
        options: dict[str, Any] = {"journal": small, "flush_interval": 0.01, "observer": events.append}
        async with Either.on(face, any_server, **options) as counters:
            counters.incr("x")
            await counters.flush()
            filler = full(small)
            for number in range(200):
                counters.incr("x")
                counters.incr(f"n{number}" * 20)
                if number % 100 == 0:
                    with suppress(Unavailable):
                        await counters.flush(0.5)
            assert await counters.get("x", max_age=0) == 201
            assert kinds(events).count(EventKind.JOURNAL_FAILED) == 1
            assert counters.stats().journal_failures > 0
            filler.unlink()
            await counters.flush()
            while EventKind.JOURNAL_RECOVERED not in kinds(events):  # told at the end of a round
                await asyncio.sleep(0.01)
            assert kinds(events).count(EventKind.JOURNAL_FAILED) == 1
        assert list(small.iterdir()) == []

    asyncio.run(asyncio.wait_for(main(), 60))
    assert truth(any_server, ["n7" * 20]) == {b"n7" * 20: 1}


@pytest.mark.parametrize("face", FACES)
def test_a_disk_that_fills_in_mid_run_always(any_server: RealServer, small: Path, face: str) -> None:
    """A call that cannot be recorded says so and is not counted; all others are, also after a kill."""
    text = program(
        """
        counters = counters_of(flush_interval=60)
        counters.incr("x")
        filler = full(pathlib.Path(directory))
        returned = refused = 0
        while refused < 5:
            try:
                counters.incr("x")
                returned += 1
            except NotRecorded as error:
                assert "journal" in str(error)
                refused += 1
        value = await done(counters.get("x", max_age=0))
        assert value == 1 + returned, value
        filler.unlink()
        for _ in range(10):
            counters.incr("x")
        print(1 + returned + 10)
        killed()
        """,
        before="import pathlib\nfrom redis_counters import NotRecorded\n" + FULL,
    )
    counted = int(run(text, any_server.url, small, face, "always"))
    assert counted >= 11
    assert kinds(asyncio.run(told(any_server, face, small))) == [EventKind.JOURNAL_TAKEN_OVER]
    assert truth(any_server, ["x"]) == {b"x": counted}


@pytest.mark.parametrize("face", FACES)
def test_full_and_killed(any_server: RealServer, small: Path, face: str) -> None:
    """Killed while the journal cannot be written: what was said to be in Redis stays, nothing counts twice.

    A flush that needs a new actor waits for the disk, so not every flush ends: only what those that ended sent is sure.
    """
    text = program(
        """
        counters = counters_of(flush_interval=0.005)
        for _ in range(20):
            counters.incr("x", 3)
            await done(counters.flush())
        full(pathlib.Path(directory))
        sure = 60
        for number in range(10):
            counters.incr("x")
            counters.incr("y" * number)
            with contextlib.suppress(Unavailable):
                await done(counters.flush(0.5))
                sure = 61 + number
        print(sure)
        killed()
        """,
        before="import contextlib, pathlib\nfrom redis_counters import Unavailable\n" + FULL,
    )
    sure = int(run(text, any_server.url, small, face, "interval"))
    before = truth(any_server, ["x", "y"])
    assert sure <= before[b"x"] <= 70
    (small / "filler").unlink()
    assert EventKind.JOURNAL_TAKEN_OVER in kinds(asyncio.run(told(any_server, face, small)))
    assert truth(any_server, ["x", "y"]) == before


@pytest.mark.parametrize("mode", ["interval", "always"])
@pytest.mark.parametrize("face", FACES)
def test_somebody_removes_the_directory(any_server: RealServer, tmp_path: Path, face: str, mode: str) -> None:
    """It is noticed, said, and all that is counted is recorded anew."""
    text = program("""
        events = []
        counters = counters_of(observer=events.append, flush_interval=0.005)
        counters.incr("x", 5)
        await done(counters.flush())
        for name in os.listdir(directory):
            os.unlink(os.path.join(directory, name))
        os.rmdir(directory)
        for _ in range(100):
            try:
                counters.incr("x")
            except CounterError:
                counters.incr("x")
            await done(counters.flush())
            if "journal recovered" in [event.kind.word for event in events]:
                break
        print([event.kind.word for event in events])
        try:
            os.environ["REDIS"] = "gone"
            counters.incr("y", 7)
            await done(counters.flush())
        finally:
            killed()
    """)
    said = run(text, any_server.url, tmp_path / "journal", face, mode)
    assert said == "['journal failed', 'journal recovered']\n"
    assert len(list((tmp_path / "journal").glob("*.journal"))) == 1
    before = truth(any_server, ["x", "y"])
    assert kinds(asyncio.run(told(any_server, face, tmp_path / "journal"))) == [EventKind.JOURNAL_TAKEN_OVER]
    assert truth(any_server, ["x", "y"]) == before
    assert before[b"y"] == 7


def test_not_recorded_is_not_counted(any_server: RealServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever SQLite raises: the call is refused as a whole, with its cause, and may be repeated."""
    import sqlite3

    from redis_counters import Counters
    from redis_counters.drivers.journal.file import JournalFile

    with Counters.from_url(any_server.url, journal=tmp_path, journal_mode="always") as counters:
        counters.incr("x")
        for failure in (sqlite3.OperationalError("disk I/O error"), OSError(5, "Input/output error")):

            def fails(*arguments: object, failure: Exception = failure) -> None:
                raise failure

            with monkeypatch.context() as patch:
                patch.setattr(JournalFile, "append", fails)
                for call in (counters.incr, counters.decr, lambda name: counters.add(name, 10**12)):
                    with pytest.raises(NotRecorded, match=r"x.*was not counted.*journal") as caught:
                        call("x")
                    assert caught.value.__cause__ is failure
            counters.incr("x")
        assert counters.get("x", max_age=0) == 3
