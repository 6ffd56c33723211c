"""The janitor in a client's background, in both faces; and owners that sleep while others keep house."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from redis_counters import Counters, Event, EventKind
from redis_counters.protocol.upkeep import schedule
from redis_counters.protocol.upkeep.janitor import JanitorReport, one_pass, upkeep_of
from redis_counters.protocol.wire.settings import make_settings
from tests.faces.either import FACES, Either, client_of, closed, commandstats, reset_stats, truth
from tests.protocol.cleaning import LONG, UPKEEP, House, drive
from tests.servers import RealServer
from tests.waiting import until_async


@pytest.fixture
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Janitors make their passes, and look at crowded shards, several times a second."""
    monkeypatch.setattr(schedule, "MIN_PERIOD_S", 0.2)
    monkeypatch.setattr(schedule, "PERIODS_PER_TTL", 1e9)
    monkeypatch.setattr(schedule, "REPAIR_PAUSE_S", 0.1)


STEPS = (EventKind.REAPED, EventKind.FOLDED, EventKind.CLEANED)

eager = pytest.mark.usefixtures("_eager")


# -- in the background


@pytest.mark.every(2, "seconds each")
@eager
@pytest.mark.parametrize("face", FACES)
def test_an_idle_client_closes_folds_and_forgets(any_server: RealServer, face: str) -> None:
    """Whoever has counted once helps from then on; each step is told, with numbers, to the observer."""
    house, events = House(any_server.client(), buckets=16), list[Event]()
    for _ in range(60):
        house.short_lived(b"likes", 3)
    _, single = house.short_lived(b"x", 5)
    both = sorted(house.keys.bucket(name, 0) for name in (b"likes", b"x"))

    def buckets_told(kind: EventKind) -> list[int]:
        return sorted(event.bucket for event in events if event.kind is kind and event.bucket is not None)

    async def main() -> None:
        async with Either.on(face, any_server, observer=events.append) as counters:
            counters.incr("likes")
            await counters.flush()
            for states in ("c" * 61, "f" * 61, ""):
                house.age(LONG, b"test")
                await until_async(lambda states=states: house.states(b"test") == states, "actors are in these states")  # type: ignore[misc]
                assert truth(any_server, ["likes", "x"]) == {b"likes": 181, b"x": 5}
            # It is told when Redis's answer is there, which a close would not wait for.
            await until_async(lambda: all(buckets_told(kind) == both for kind in STEPS), "all is told")

    asyncio.run(main())
    for kind in STEPS:
        told = [event for event in events if event.kind is kind]
        assert buckets_told(kind) == both
        assert {event.actor for event in told} == {None, single}
        assert any(": 60 actors " in event.message for event in told)


@pytest.mark.every(5, "seconds each")
@eager
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("options", [{"decode_responses": True}, {"protocol": 3}, {"max_connections": 1}], ids=str)
def test_whatever_the_client_s_settings_are(server: RealServer, face: str, options: dict[str, Any]) -> None:
    """Answers that are decoded, or of the newer protocol, and one connection for everything, on every server."""
    house = House(server.client(), buckets=16)
    for _ in range(60):
        house.short_lived(b"likes", 3)

    async def main() -> None:
        client = client_of(face, server, **options)
        async with Either(face, client) as counters:
            counters.incr("likes")
            await counters.flush()
            for states in ("c" * 60, "f" * 60, ""):
                house.age(LONG, b"test")
                await until_async(lambda states=states: house.states(b"test") == states, "actors are in these states")  # type: ignore[misc]
                assert await counters.get("likes", max_age=0) == 181
        await closed(client)

    asyncio.run(main())


@pytest.mark.every(2, "seconds each")
@eager
@pytest.mark.parametrize("face", FACES)
def test_it_goes_on_while_its_client_counts(any_server: RealServer, face: str) -> None:
    """Flushes are not held up by a walk over many counters, nor the walk by flushes."""
    house = House(any_server.client(), buckets=16)
    names = [b"n%d" % i for i in range(400)]
    for name in names * 3:
        house.short_lived(name)
    counted = 0

    async def main() -> None:
        nonlocal counted
        async with Either.on(face, any_server, flush_interval=0.02) as counters:
            for states in ("c" * 1200, "f" * 1200):
                house.age(LONG, b"test")
                while house.states(b"test") != states:
                    counters.incr("n7")
                    counted += 1
                    flushed = counters.stats().flushed
                    await until_async(lambda flushed=flushed: counters.stats().flushed > flushed, "a flush")  # type: ignore[misc]
            assert counters.stats().failures == 0

    asyncio.run(main())
    assert counted > 2
    assert truth(any_server, names) == {name: 3 + counted * (name == b"n7") for name in names}
    assert all(house.client.hlen(house.keys.shard_key(name, 0)[1]) == 2 for name in names)


@pytest.mark.every(3, "a second each")
@eager
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("many", [False, True])
def test_a_read_that_meets_a_crowd_has_it_folded(any_server: RealServer, face: str, many: bool) -> None:
    """Without a walk, and of live writers nothing."""
    house = House(any_server.client(), buckets=16)
    for name in (b"likes", b"other"):
        for _ in range(100):
            house.short_lived(name)
    house.age()
    house.clean_up()
    house.age(UPKEEP.delay + 1)  # they may be folded, but no walk is due
    writer = Counters.from_url(any_server.url)
    writer.incr("likes", 7)
    writer.flush()

    async def main() -> None:
        reset_stats(any_server)
        async with Either.on(face, any_server) as counters:
            counters.incr("x")
            await counters.flush()
            names = ["likes", "unknown"] if many else ["likes"]
            assert (await counters.get_many(names, max_age=0))["likes"] == 107
            key = house.keys.shard_key(b"likes", 0)[1]
            await until_async(lambda: house.client.hlen(key) == 3, "base, dot and the writer's slot are left")
            assert (await counters.get_many(names, max_age=0))["likes"] == 107
        assert "scan" not in commandstats(any_server)

    asyncio.run(main())
    assert house.client.hlen(house.keys.shard_key(b"other", 0)[1]) == 101
    writer.close()
    assert truth(any_server, ["likes", "other"]) == {b"likes": 107, b"other": 100}


@eager
@pytest.mark.every(3, "a second each")
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("missing", ["scan", "hscan", "time", "info"])
def test_a_user_without_the_right_to_it_counts(
    any_server: RealServer, face: str, missing: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The janitor tries in each period, and says nothing; flushes and reads go on. INFO it does without."""
    house, admin = House(any_server.client(), buckets=16), any_server.client()
    house.short_lived(b"likes")
    house.age()
    house.clean_up()
    house.age()
    admin.acl_setuser("partly", enabled=True, passwords=["+secret"], keys=["*"], commands=["+@all", f"-{missing}"])

    async def main() -> None:
        url = any_server.url.replace("://", "://partly:secret@")
        async with Either.url(face, url, observer=events.append) as counters:
            if missing == "time":  # scripts need it too
                return
            counters.incr("likes")
            await counters.flush()
            janitor = counters.counters._core.housekeeping
            for _ in range(3):
                before = janitor._next_pass
                await until_async(lambda before=before: janitor._next_pass > before, "a pass of the janitor")  # type: ignore[misc]
                counters.incr("likes")
                await counters.flush()
                house.client.hdel("rc:meta", "j")
            assert await counters.get("likes", max_age=0) == 5
            assert counters.stats().failures == 0

    events = list[Event]()
    try:
        asyncio.run(main())
    finally:
        admin.acl_deluser("partly")
    if missing in ("scan", "hscan"):
        assert house.states(b"test") == "c"
        assert events == []
        assert [record for record in caplog.records if record.levelname not in ("DEBUG", "INFO")] == []
    elif missing == "info":
        assert house.states(b"test") == "f"


@eager
@pytest.mark.parametrize("face", FACES)
def test_a_fault_of_redis_ends_a_pass_and_no_more(any_server: RealServer, face: str) -> None:
    """A registry of another type, a namespace's record that is lost: counting goes on, and later passes too."""
    house = House(any_server.client(), buckets=16)

    async def main() -> None:
        async with Either.on(face, any_server) as counters:
            counters.incr("x")
            await counters.flush()
            janitor = counters.counters._core.housekeeping
            bucket = house.keys.bucket(b"x", 0)
            house.client.set(house.keys.registries[(bucket + 1) % 16], "mine")
            for _ in range(3):
                before = janitor._next_pass
                await until_async(lambda before=before: janitor._next_pass > before, "a pass of the janitor")  # type: ignore[misc]
                house.client.delete("rc:meta")
                counters.incr("x")
                await counters.flush()
            assert await counters.get("x", max_age=0) == 4
            assert counters.stats().failures == 0

    asyncio.run(main())


def test_who_lives_shortly_keeps_no_house(any_server: RealServer) -> None:
    """A client begins its first pass half a period after its start, or later; before that it asks for nothing."""
    reset_stats(any_server)
    for _ in range(5):
        with Counters.from_url(any_server.url) as counters:
            counters.incr("x")
            assert counters._core.housekeeping.wait() > 100
    assert not {"scan", "hscan"} & set(commandstats(any_server))


@pytest.mark.parametrize("face", FACES)
def test_between_passes_nothing_is_sent(any_server: RealServer, monkeypatch: pytest.MonkeyPatch, face: str) -> None:
    """The background looks whether it is time, as often as it looks at the buffer, and goes on sleeping."""
    looks, steps, wait = 0, 0, schedule.Housekeeping.wait

    def look(self: schedule.Housekeeping) -> float:
        nonlocal looks
        looks += 1
        return wait(self)

    def step(self: schedule.Housekeeping) -> None:
        nonlocal steps
        steps += 1

    monkeypatch.setattr(schedule.Housekeeping, "wait", look)
    monkeypatch.setattr(schedule.Housekeeping, "commands", step)

    async def main() -> None:
        async with Either.on(face, any_server, flush_interval=0.02) as counters:
            counters.incr("x")
            await counters.flush()
            begun = looks
            await until_async(lambda: looks > begun + 5, "five looks more")

    asyncio.run(main())
    assert steps == 0


# -- several at once


@pytest.mark.slow("many clients")
@eager
def test_many_janitors_and_owners_at_once(any_server: RealServer) -> None:
    """Three janitors go round without a pause, owners flush, rotate, close, and are closed: every count is exact."""
    client: Any = any_server.client()
    house = House(client, buckets=4)
    names, stop, failures = [f"n{i}" for i in range(12)], threading.Event(), list[BaseException]()
    upkeep = upkeep_of(make_settings(actor_ttl=0.5, reassert_window=0.25, retention=3))
    assert upkeep == (1, 1, 3)
    tallies = [JanitorReport() for _ in range(3)]

    def janitor(report: JanitorReport) -> None:
        own = any_server.client()
        try:
            while not stop.is_set():
                drive(own, one_pass(house.keys, upkeep, report))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=janitor, args=(report,)) for report in tallies]
    for thread in threads:
        thread.start()
    issued = 0
    unsure = 0
    end = time.monotonic() + 60
    while time.monotonic() < end and min(_done(tallies)) < 20:
        with Counters.from_url(
            any_server.url, flush_interval=0.02, rotate_slots=3, reassert_window=0.2, actor_ttl=30, buckets=4
        ) as counters:
            for turn in range(3):
                for name in names[turn:]:
                    counters.incr(name, 3)
                    counters.decr(name)
                    issued += 2
                counters.flush()
                for name in names[:3]:
                    house.short_lived(name.encode(), 5)
                    issued += 5
                if turn == 1:
                    time.sleep(1.2)  # long enough to be closed by others
            unsure += counters.stats().uncertain
    stop.set()
    for thread in threads:
        thread.join(30)
    assert failures == []
    assert min(_done(tallies)) >= 20
    assert unsure == 0
    assert sum(truth(any_server, names).values()) == issued


def _done(tallies: list[JanitorReport]) -> tuple[int, int, int]:
    """Return how many were closed, folded, forgotten by them together."""
    return (
        sum(len(report.reaped) for report in tallies),
        sum(len(report.folded) for report in tallies),
        sum(len(report.cleaned) for report in tallies),
    )


# -- owners that sleep


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("waiting", [0, 5])
@pytest.mark.parametrize("how", ["reaped", "reaped long ago", "folded", "cleaned"])
def test_an_owner_comes_back(any_server: RealServer, face: str, waiting: int, how: str) -> None:
    """Exact within the retention period; after it, it says that it cannot know of a fail-over in between.

    An actor that was closed for so long that it may be folded is not opened again: its owner goes on with another.
    """
    house, events = House(any_server.client(), buckets=16), list[Event]()

    async def main() -> None:
        async with Either.on(face, any_server, flush_interval=3600, observer=events.append) as counters:
            counters.incr("x", 10)
            counters.decr("x", 1)
            await counters.flush()
            counters.add("x", waiting)
            house.age(UPKEEP.actor_ttl)
            for step in ("reaped", "folded", "cleaned"):
                house.clean_up()
                if step == how == "reaped":
                    break
                house.age(UPKEEP.delay + 1 if step == "reaped" else UPKEEP.retention + 1)
                if how.startswith(step):
                    break
            assert house.states() == {"folded": "f", "cleaned": ""}.get(how, "c")
            assert await counters.get("x", max_age=0) == 9 + waiting
            counters.incr("x")
            assert await counters.get("x", max_age=0) == 10 + waiting
            await counters.flush()
            assert counters.stats().uncertain == (how == "cleaned")
            assert counters.stats().pending == 0

    asyncio.run(main())
    kinds = {event.kind for event in events}
    assert (EventKind.MOVED in kinds) == (how in ("reaped long ago", "folded"))
    assert (EventKind.UNCERTAIN in kinds) == (how == "cleaned")
    assert (EventKind.REOPENED in kinds) == (how != "cleaned")
    lost = waiting + 1 if how == "cleaned" else 0  # it did not notice its sleep: its first flush was in doubt
    assert 10 + waiting - lost <= truth(any_server, ["x"])[b"x"] <= 10 + waiting


SLEEPER = """
import sys, time
import {module} as face
from redis_counters import EventKind

told = []
options = dict(flush_interval=0.02, actor_ttl=1, reassert_window=0.3, retention={retention}, observer=told.append)

def report(counters):
    unsure = sum(event.kind is EventKind.UNCERTAIN for event in told)
    print("told", counters.stats().uncertain, unsure, flush=True)
"""
BLOCKING = """
with face.Counters.from_url(sys.argv[1], **options) as counters:
    counters.incr("x", 10)
    counters.flush()
    print("counted", flush=True)
    sys.stdin.readline()
    counters.incr("x", 5)
    counters.flush()
    report(counters)
"""
ASYNCIO = """
import asyncio

async def main():
    async with face.Counters.from_url(sys.argv[1], **options) as counters:
        counters.incr("x", 10)
        await counters.flush()
        print("counted", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        counters.incr("x", 5)
        await counters.flush()
        report(counters)

asyncio.run(main())
"""


@pytest.mark.every(4, "seconds each")
@eager
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("retention", [3600, 0])
def test_a_frozen_process_wakes_up(any_server: RealServer, face: str, retention: int) -> None:
    """SIGSTOP, for as long as it takes a client's background to close, fold and forget its actor, in real time."""
    house = House(any_server.client(), buckets=16)
    module = "redis_counters" if face == "blocking" else "redis_counters.asyncio"
    program = SLEEPER.format(module=module, retention=retention) + (BLOCKING if face == "blocking" else ASYNCIO)
    process = subprocess.Popen(
        [sys.executable, "-c", program, any_server.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None
    try:
        assert stdout.readline() == b"counted\n"
        os.kill(process.pid, signal.SIGSTOP)
        (sleeper,) = [record.actor for _, record in house.records()]

        def state() -> str:
            return "".join(record.state.decode() for _, record in house.records() if record.actor == sleeper)

        async def main() -> None:
            options = {"actor_ttl": 1, "reassert_window": 0.3, "retention": retention, "rotate_age": 3600}
            async with Either.on(face, any_server, **options) as counters:
                while state() != ("f" if retention else ""):
                    counters.incr("y")  # it lives
                    await counters.flush()
                    await asyncio.sleep(0.05)
                os.kill(process.pid, signal.SIGCONT)
                stdin.write(b"\n")
                stdin.flush()
                told = await asyncio.to_thread(stdout.readline)
                assert told == (b"told 0 0\n" if retention else b"told 1 1\n")

        asyncio.run(main())
        assert process.wait(30) == 0
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGCONT)
            process.kill()
            process.wait()
        stdin.close()
        stdout.close()
    assert truth(any_server, ["x"]) == {b"x": 15}
