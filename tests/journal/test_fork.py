"""A forked child has a journal of its own, and never touches what its parent has open."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from redis_counters import Counters, Event, EventKind
from redis_counters.drivers.journal import client as journal
from redis_counters.drivers.journal import locks
from redis_counters.protocol.wire.options import JournalMode, Options
from tests.faces.either import FACES, Either, truth
from tests.journal.processes import program, run
from tests.journal.test_take_over import AWAY, kinds, told
from tests.servers import RealServer

LIMIT = 60

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


def child(work: Callable[[], None]) -> int:
    """Return the exit code of a child that does the work: 0, or 1 after an error; -9 if it killed itself."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(LIMIT)
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("mode", ["interval", "always"])
def test_parent_and_child(any_server: RealServer, tmp_path: Path, mode: JournalMode) -> None:
    """Both count with the same client, into two files; the child's is told by whoever comes next."""
    with Counters.from_url(any_server.url, journal=tmp_path, journal_mode=mode, flush_interval=0.005) as counters:
        counters.incr("x", 5)
        counters.flush()
        before = set(tmp_path.glob("*.journal"))

        def work() -> None:
            assert counters.stats().slots == 0
            counters.incr("x", 100)
            counters.flush()
            assert len(set(tmp_path.glob("*.journal")) - before) == 1
            assert before <= set(tmp_path.glob("*.journal"))
            counters.incr("x", 1000)
            counters.flush()
            os.kill(os.getpid(), signal.SIGKILL)

        assert child(work) == -signal.SIGKILL
        counters.incr("x", 5)
        counters.flush()
        assert before <= set(tmp_path.glob("*.journal"))
    assert kinds(asyncio.run(told(any_server, "blocking", tmp_path))) == [EventKind.JOURNAL_TAKEN_OVER]
    assert truth(any_server, ["x"]) == {b"x": 1110}
    assert list(tmp_path.iterdir()) == []


def test_the_parents_lock_outlives_its_children(any_server: RealServer, tmp_path: Path) -> None:
    """Children that count, close, and end by sys.exit: the parent's journal stays locked, and whole."""
    with Counters.from_url(any_server.url, journal=tmp_path, flush_interval=0.005) as counters:
        counters.incr("x")
        counters.flush()
        [own] = tmp_path.glob("*.journal")
        for _ in range(3):

            def work() -> None:
                counters.incr("x")
                counters.close()

            assert child(work) == 0
        taker = program("""
            counters = counters_of()
            await done(counters.flush())
            await done(counters.close())
        """)
        run(taker, any_server.url, tmp_path, "blocking", "interval", killed=False)
        assert own.exists()
        counters.incr("x")
        counters.flush()
        assert counters.stats().journal_failures == 0
    assert truth(any_server, ["x"]) == {b"x": 5}
    assert list(tmp_path.iterdir()) == []


ORPHANED = program(
    """
    children, generations, address = int(arguments[0]), int(arguments[1]), arguments[2]
    counters = counters_of(flush_interval=0.005)
    counters.incr("x", 7)
    try:
        await done(counters.flush(0.3))
    except CounterError:  # Redis is away: it is in the journal alone
        await recorded(counters)
    living, dying = os.pipe()  # it ends with the parent
    for _ in range(children):
        if os.fork() == 0:
            os.close(dying)
            if generations == 2 and os.fork():
                os._exit(0)
            signal.alarm(30)
            try:
                asyncio.run(count_on(counters, living, address, 7 + 10 * children))
            finally:
                os._exit(1)
    killed()
    """,
    before="""
import redis_counters.drivers.journal.client

redis_counters.drivers.journal.client.SEEK_S = 0.0

async def count_on(counters, living, address, whole):
    global url
    if address == url:
        counters.incr("x", 10)  # while the parent lives, perhaps
        await done(counters.flush())
    os.read(living, 1)
    if address != url:
        url = address
        counters = counters_of()
        counters.incr("x", 10)
    await done(counters.flush())
    while await done(counters.get("x", max_age=0)) != whole:
        await asyncio.sleep(0.01)
    await done(counters.close())
    os.write(1, b"done\\n")  # in one piece: others write there too
    os._exit(0)
""",
)


@pytest.mark.every(5, "processes each")
@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize("mode", ["interval", "always"])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(("children", "generations"), [(1, 1), (1, 2), (3, 1)])
def test_children_take_their_dead_parents_journal_over(
    any_server: RealServer, tmp_path: Path, face: str, mode: str, children: int, generations: int, away: bool
) -> None:
    """The parent is killed while children live, of which SQLite knows what the parent had open: one of them tells it.

    The children go on with the parent's client, which has looked for journals before; or, if Redis was away for that,
    make one of their own.
    """
    url = "redis://localhost:1" if away else any_server.url
    said = run(ORPHANED, url, tmp_path, face, mode, children, generations, any_server.url)
    assert said == "done\n" * children
    assert truth(any_server, ["x"]) == {b"x": 7 + 10 * children}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", ["interval", "always"])
@pytest.mark.slow("many forks")
def test_forks_while_journals_are_written(any_server: RealServer, tmp_path: Path, mode: JournalMode) -> None:
    """Whatever SQLite is doing in another thread at the fork, the child makes a journal of its own, counts and ends."""
    options: Options = {"journal": tmp_path, "journal_mode": mode, "flush_interval": 0.001}
    with (
        Counters.from_url(any_server.url, **options) as counters,
        Counters.from_url(any_server.url, **options) as other,
    ):
        over = threading.Event()
        counted = [0, 0]

        def count(number: int) -> None:
            while not over.is_set():
                (counters, other)[number].incr("x")
                counted[number] += 1

        threads = [threading.Thread(target=count, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()

        def work() -> None:
            counters.incr("child's")
            counters.flush()
            counters.close()

        ended = [child(work) for _ in range(25)]
        over.set()
        for thread in threads:
            thread.join()
        assert ended == [0] * 25
        assert counters.stats().journal_failures == 0
    assert truth(any_server, ["x", "child's"]) == {b"x": sum(counted), b"child's": 25}
    assert list(tmp_path.iterdir()) == []
    assert not locks._stopped


@pytest.mark.parametrize("face", FACES)
def test_a_child_that_never_counts(any_server: RealServer, tmp_path: Path, face: str) -> None:
    """It makes no file, and the parent goes on."""

    async def main() -> None:
        async with Either.on(face, any_server, journal=tmp_path, flush_interval=0.005) as counters:
            counters.incr("x")
            await counters.flush()
            files = sorted(tmp_path.iterdir())
            assert child(lambda: None) == 0
            assert sorted(tmp_path.iterdir()) == files
            counters.incr("x")

    asyncio.run(main())
    assert truth(any_server, ["x"]) == {b"x": 2}
    assert list(tmp_path.iterdir()) == []


def test_a_copy_that_fails(any_server: RealServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full when a child goes on in a copy: that is told, the journal stays, and is taken over later."""
    run(AWAY, "redis://localhost:1", tmp_path, "blocking", "interval")
    [path] = tmp_path.glob("*.journal")
    status = path.stat()
    inherited = {(status.st_dev, status.st_ino)}
    monkeypatch.setattr(locks, "_inherited_inodes", inherited)
    monkeypatch.setattr(journal, "SEEK_S", 0.0)
    events: list[Event] = []

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with Counters.from_url(any_server.url, journal=tmp_path, observer=events.append) as counters:
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "copyfileobj", full)
            deadline = time.monotonic() + LIMIT
            while not events and time.monotonic() < deadline:
                counters.incr("ticks")
                counters.flush()
        assert set(kinds(events)) == {EventKind.JOURNAL_FAILED}
        assert (path.stat().st_dev, path.stat().st_ino) in inherited
        counters.flush()
        assert counters.get("x", max_age=0) == 10
        assert (path.stat().st_dev, path.stat().st_ino) not in inherited
    assert kinds(events)[-1] == EventKind.JOURNAL_TAKEN_OVER
    assert list(tmp_path.iterdir()) == []
