"""What a killed process had in its journal is told by the next client with that directory, exactly once."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
import redis

from redis_counters import Event, EventKind
from redis_counters.drivers.journal import client as journal
from redis_counters.drivers.journal import reading as journal_reading
from redis_counters.drivers.journal import salvage
from tests.faces.either import FACES, Either, truth
from tests.journal.processes import program, run, start
from tests.servers import RealServer

MODES = ("interval", "always")

AWAY = program("""
    counters = counters_of()
    for name in ("x", "y", "x"):
        counters.incr(name, 5)
    counters.decr("z", 3)
    try:
        await done(counters.flush(0.2))
    except CounterError:
        await recorded(counters)
        killed()
""")

FLUSHED = program("""
    counters = counters_of(shards={"wide": 4})
    for number in range(300):
        counters.incr(f"n{number % 50}")
        counters.incr("wide")
    await done(counters.flush())
    for number in range(300):
        counters.add(f"n{number % 50}", 2)
    await done(counters.flush())
    killed()
""")


async def told(
    server: RealServer, face: str, directory: Path, mode: str = "interval", **options: object
) -> list[Event]:
    """The orphans are told by a client that counts nothing; return what happened."""
    events: list[Event] = []
    async with Either.on(
        face, server, journal=directory, journal_mode=mode, observer=events.append, **options
    ) as next_one:
        await next_one.flush()
    return events


def kinds(events: list[Event]) -> list[EventKind]:
    return [event.kind for event in events]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("face", FACES)
def test_redis_was_away(any_server: RealServer, tmp_path: Path, face: str, mode: str) -> None:
    """Counted while Redis was not to be reached, killed: all of it is told, and the directory is empty again."""
    run(AWAY, "redis://localhost:1", tmp_path, face, mode)
    assert len(list(tmp_path.glob("*.journal"))) == 1
    events = asyncio.run(told(any_server, face, tmp_path))
    assert kinds(events) == [EventKind.JOURNAL_TAKEN_OVER]
    assert truth(any_server, ["x", "y", "z"]) == {b"x": 10, b"y": 5, b"z": -3}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("face", FACES)
def test_all_had_arrived(any_server: RealServer, tmp_path: Path, face: str, mode: str) -> None:
    """Counted, flushed, killed: the take-over changes no value, and its actors come to their end."""
    run(FLUSHED, any_server.url, tmp_path, face, mode)
    names = [f"n{number}" for number in range(50)] + ["wide"]
    counted = dict.fromkeys((name.encode() for name in names[:50]), 18) | {b"wide": 300}
    assert truth(any_server, names) == counted
    assert kinds(asyncio.run(told(any_server, face, tmp_path))) == [EventKind.JOURNAL_TAKEN_OVER]
    assert truth(any_server, names) == counted
    assert list(tmp_path.iterdir()) == []
    with redis.Redis(port=any_server.port) as client:
        for key in client.scan_iter("*:c:*"):
            assert not [field for field in client.hkeys(key) if b"." in field and field[-1:] in b"+-"], key


@pytest.mark.parametrize("face", FACES)
def test_killed_while_others_run(
    any_server: RealServer, tmp_path: Path, face: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that has looked already, and only counts, takes over what is killed later; nothing need be started."""
    monkeypatch.setattr(journal, "SEEK_S", 0.05)
    events: list[Event] = []

    async def main() -> None:
        async with Either.on(
            face, any_server, journal=tmp_path, flush_interval=0.01, observer=events.append
        ) as counters:
            for round_ in range(1, 3):
                counters.incr("own")
                await counters.flush()
                await asyncio.to_thread(run, AWAY, "redis://localhost:1", tmp_path, face, "interval")
                while await counters.get("x", max_age=0) != 10 * round_:
                    counters.incr("ticks")
                    await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(main(), 60))
    assert kinds(events) == [EventKind.JOURNAL_TAKEN_OVER] * 2
    assert truth(any_server, ["x", "y", "z", "own"]) == {b"x": 20, b"y": 10, b"z": -6, b"own": 2}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("face", FACES)
def test_the_next_one_counts_too(any_server: RealServer, tmp_path: Path, face: str) -> None:
    """The next process counts in the same names from its start: both counts are there."""
    run(AWAY, "redis://localhost:1", tmp_path, face, "interval")

    async def main() -> None:
        async with Either.on(face, any_server, journal=tmp_path, flush_interval=0.01) as counters:
            for _ in range(100):
                counters.incr("x")
            await counters.flush()
            assert await counters.get("x", max_age=0) == 110

    asyncio.run(main())
    assert truth(any_server, ["x", "y", "z"]) == {b"x": 110, b"y": 5, b"z": -3}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow("seconds of silence")
def test_a_journal_of_a_living_process_is_left_alone(any_server: RealServer, tmp_path: Path) -> None:
    """While its process lives, nobody takes a journal over; two clients of one process do not either."""
    alive = program("""
        counters = counters_of(flush_interval=0.01)
        counters.incr("x", 7)
        await done(counters.flush())
        print("ready", flush=True)
        input()
        counters.incr("x", 1)
        await done(counters.close())
    """)
    with start(alive, any_server.url, tmp_path, "blocking", "interval") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"

        async def main() -> None:
            async with Either.on("blocking", any_server, journal=tmp_path) as one:
                one.incr("x", 10)
                await one.flush()
                async with Either.on("asyncio", any_server, journal=tmp_path) as two:
                    two.incr("x", 100)
                    await two.flush()
                    assert len(list(tmp_path.glob("*.journal"))) == 3
                one.incr("x", 1000)
            assert len(list(tmp_path.glob("*.journal"))) == 1

        asyncio.run(main())
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait(60) == 0
    assert truth(any_server, ["x"]) == {b"x": 1118}
    assert list(tmp_path.iterdir()) == []


def test_other_namespaces_and_regions(any_server: RealServer, tmp_path: Path) -> None:
    """A journal of another namespace or region is left as it is, and waits for a client of its own."""
    run(AWAY, "redis://localhost:1", tmp_path, "blocking", "interval")
    before = sorted(path.name for path in tmp_path.iterdir())
    for options in ({"namespace": "other"}, {"namespace": "third", "region": "elsewhere"}):
        assert asyncio.run(told(any_server, "blocking", tmp_path, **options)) == []
    assert {path.name for path in tmp_path.glob("*.journal")} <= set(before)
    assert len(list(tmp_path.glob("*.journal"))) == 1
    asyncio.run(told(any_server, "blocking", tmp_path))
    assert truth(any_server, ["x"]) == {b"x": 10}


def test_of_a_journal_of_others_nothing_is_read_but_whose_it_is(
    any_server: RealServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much is in it: each client of that directory meets it again, once a minute."""
    run(AWAY, "redis://localhost:1", tmp_path, "blocking", "interval")
    read: list[sqlite3.Connection] = []

    def reading(connection: sqlite3.Connection) -> journal_reading.Found:
        read.append(connection)
        return journal_reading.read(connection)

    monkeypatch.setattr(salvage, "read", reading)
    assert asyncio.run(told(any_server, "blocking", tmp_path, namespace="other")) == []
    assert not read
    assert kinds(asyncio.run(told(any_server, "blocking", tmp_path))) == [EventKind.JOURNAL_TAKEN_OVER]
    assert len(read) == 1


@pytest.mark.parametrize("face", FACES)
@pytest.mark.slow("many processes")
def test_many_at_once(any_server: RealServer, tmp_path: Path, face: str) -> None:
    """Six journals, three processes that start at the same time: each journal is told by one of them."""
    for _ in range(6):
        run(AWAY, "redis://localhost:1", tmp_path, "blocking", "interval")
    taker = program("""
        counters = counters_of()
        input()
        counters.incr("own")
        await done(counters.close(30))
    """)
    takers = [start(taker, any_server.url, tmp_path, face, "interval") for _ in range(3)]
    for each in takers:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    for each in takers:
        with each:
            assert each.wait(60) == 0
    assert truth(any_server, ["x", "y", "z", "own"]) == {b"x": 60, b"y": 30, b"z": -18, b"own": 3}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.every(2, "seconds each")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("face", FACES)
def test_a_process_that_ends_with_redis_away(any_server: RealServer, tmp_path: Path, face: str, mode: str) -> None:
    """Whether it closes or just ends: what did not get across is in the journal, and close() says that."""
    for number, end in enumerate(("await done(counters.close(0.3))", "pass")):
        ended = program(
            f"""
            counters = counters_of()
            counters.incr("x", 5)
            try:
                {end}
            except CounterError as error:
                print("kept in the journal" in str(error), error.pending)
            """,
            before="from redis_counters.drivers.process import atexit_hooks\natexit_hooks.LIMIT = 0.5\n",
        )
        said = run(ended, "redis://localhost:1", tmp_path, face, mode, killed=False)
        assert said == ("" if number else "True {'x': 5}\n")
        assert len(list(tmp_path.glob("*.journal"))) == number + 1
    asyncio.run(told(any_server, face, tmp_path))
    assert truth(any_server, ["x"]) == {b"x": 10}
    assert list(tmp_path.iterdir()) == []
