"""What happened in Redis between the kill and the next start: reaped, folded, cleaned up, rolled back, refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import redis

from redis_counters import EventKind
from redis_counters.protocol.wire.commands import Command, Script
from tests.faces.either import FACES, Either, truth
from tests.journal.processes import program, run
from tests.journal.test_take_over import kinds, told
from tests.protocol.by_hand import run as run_command
from tests.servers import RealServer

MODES = ("interval", "always")

HALF = program("""
    from tests.journal.killing import Fate
    counters = counters_of(flush_interval=60, buckets=1)
    counters.incr("x", 3)
    counters.incr("y", 1)
    await done(counters.flush())
    counters.incr("x", 4)
    Fate("redis", 1)  # the second flush arrives, and its answer is never read
    counters.incr("z", 5)
    await done(counters.flush())
""")

UNSENT = program("""
    from tests.journal.killing import Fate
    counters = counters_of(flush_interval=60, buckets=1)
    counters.incr("x", 3)
    await done(counters.flush())
    counters.incr("x", 4)
    Fate("redis", 0)  # recorded, and never sent
    await done(counters.flush())
""")

TALLIED = program("""
    from redis_counters.drivers.journal.file import JournalFile
    counters = counters_of(flush_interval=60, buckets=1)
    counters.incr("x", 3)
    await done(counters.flush())
    write = JournalFile.write
    JournalFile.write = lambda self, changes: [write(self, changes), killed()]
    counters.incr("x", 4)  # recorded as counted, and not yet as sent
    await done(counters.flush())
""")


def registries(client: Any) -> list[tuple[bytes, bytes, bytes]]:
    """Return (registry, actor, record) of all actors."""
    return [
        (key, field, record)
        for key in client.scan_iter("*}:a")
        for field, record in client.hgetall(key).items()
        if b"." in field and not field.startswith(b"@")
    ]


def reap(client: Any) -> None:
    for registry, actor, record in registries(client):
        if record[:1] == b"o":
            client.hset(registry, actor, b"c" + record[1:])


def fold(client: Any) -> None:
    reap(client)
    for registry, actor, _record in registries(client):
        keys = list(client.scan_iter(registry[:-1] + b"c:*"))
        assert run_command(client, Command(Script.SLOTS_FOLD, (registry, *keys), (actor, 0)))[0] == b"OK"


def clean(client: Any) -> None:
    fold(client)
    for registry, actor, _record in registries(client):
        number = actor.split(b".")[1]
        client.hset(registry, "c", number)
        client.hdel(registry, actor)


@pytest.mark.parametrize("meanwhile", [reap, fold])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("face", FACES)
def test_reaped_or_folded(any_server: RealServer, tmp_path: Path, face: str, mode: str, meanwhile: Any) -> None:
    """By a janitor, while nobody knew whether the last flush had arrived: the journal tells what the rest is."""
    for number, (text, values) in enumerate(
        [(HALF, {b"x": 7, b"y": 1, b"z": 5}), (UNSENT, {b"x": 7, b"y": 0, b"z": 0})]
    ):
        directory = tmp_path / str(number)
        with any_server.client() as client:
            client.flushdb()
            run(text, any_server.url, directory, face, mode)
            meanwhile(client)
            events = asyncio.run(told(any_server, face, directory))
            assert EventKind.UNCERTAIN not in kinds(events)
            assert truth(any_server, ["x", "y", "z"]) == values
            assert not [record for *_, record in registries(client) if record[:1] == b"o"]


@pytest.mark.parametrize("face", FACES)
def test_cleaned_up(any_server: RealServer, tmp_path: Path, face: str) -> None:
    """The record is gone: what may have been sent counts as applied; `always` knows of the rest that it was not."""
    for mode, text, x in (
        ("always", TALLIED, 7),
        ("interval", TALLIED, 3),
        ("always", UNSENT, 3),
        ("interval", UNSENT, 3),
    ):
        directory = tmp_path / f"{mode}-{x}" / str(len(text))
        with any_server.client() as client:
            client.flushdb()
            run(text, any_server.url, directory, face, mode)
            clean(client)
            events = asyncio.run(told(any_server, face, directory))
            assert truth(any_server, ["x"]) == {b"x": x}, mode
            assert EventKind.UNCERTAIN in kinds(events)  # a fail-over just before that would not be seen any more


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("face", FACES)
def test_a_fail_over_took_back_what_was_acknowledged(
    any_server: RealServer, tmp_path: Path, face: str, mode: str
) -> None:
    """The new primary lacks the process's last flushes, or all of them: they are told again."""
    with any_server.client() as client:
        for number, text in enumerate((HALF, UNSENT)):
            directory = tmp_path / str(number)
            client.flushdb()
            run(text, any_server.url, directory, face, mode)
            client.flushdb()
            asyncio.run(told(any_server, face, directory, buckets=1))
            assert truth(any_server, ["x"]) == {b"x": 7}


@pytest.mark.parametrize("face", FACES)
def test_a_fail_over_during_the_take_over(any_server: RealServer, tmp_path: Path, face: str) -> None:
    """What was told of the journal is taken back: within the re-assert window it is told again, and kept until then."""
    run(HALF, any_server.url, tmp_path, face, "interval")

    async def main() -> None:
        options = {"journal": tmp_path, "flush_interval": 0.01, "reassert_window": 30.0}
        async with Either.on(face, any_server, **options) as counters:
            await counters.flush()
            assert len(list(tmp_path.glob("*.journal"))) == 1
            with any_server.client() as client:
                for key in client.scan_iter("*:c:*"):
                    client.delete(key)
                for registry, actor, record in registries(client):
                    client.hset(registry, actor, b"o 0 " + record.split(b" ", 2)[2])
            counters.incr("w")  # somebody notices
            await counters.flush()
            while dict(await counters.get_many(["x", "y", "z"], max_age=0)) != {"x": 7, "y": 1, "z": 5}:
                counters.incr("w")
                await counters.flush()
                await asyncio.sleep(0.05)

    asyncio.run(asyncio.wait_for(main(), 60))
    assert truth(any_server, ["x", "y", "z"]) == {b"x": 7, b"y": 1, b"z": 5}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("face", FACES)
def test_refused(any_server: RealServer, tmp_path: Path, face: str) -> None:
    """A counter's key holds something else by now: the others are told, it stays in the journal until it can be."""
    run(UNSENT, any_server.url, tmp_path, face, "interval")
    with any_server.client() as client:
        [key] = client.scan_iter("*:c:*:x")
        value = client.hgetall(key)
        client.delete(key)
        client.set(key, "mine")
        assert EventKind.REFUSED in kinds(asyncio.run(told(any_server, face, tmp_path)))
        assert len(list(tmp_path.glob("*.journal"))) == 1
        client.delete(key)
        client.hset(key, mapping=value)
        asyncio.run(told(any_server, face, tmp_path))
    assert truth(any_server, ["x"]) == {b"x": 7}
    assert list(tmp_path.iterdir()) == []


def test_another_number_of_buckets(any_server: RealServer, tmp_path: Path) -> None:
    """The namespace was made anew with other keys: the journal cannot be told; that is said, and it is left alone."""
    run(UNSENT, any_server.url, tmp_path, "blocking", "interval")
    with any_server.client() as client:
        client.flushdb()
    events = asyncio.run(told(any_server, "blocking", tmp_path, buckets=4))
    assert kinds(events) == [EventKind.JOURNAL_TAKEN_OVER, EventKind.REFUSED]
    assert "buckets" in events[-1].message
    assert len(list(tmp_path.glob("*.journal"))) == 1
    assert truth(any_server, ["x"]) == {b"x": 0}


@pytest.mark.parametrize("face", FACES)
def test_a_counter_that_was_deleted_stays_deleted(any_server: RealServer, tmp_path: Path, face: str) -> None:
    """Deleted after its counts were acknowledged: the next start does not bring them back."""
    text = program("""
        counters = counters_of(flush_interval=60)
        counters.incr("x", 3)
        await done(counters.flush())
        counters.incr("y")
        await done(counters.flush())
        killed()
    """)
    run(text, any_server.url, tmp_path, face, "interval")
    with redis.Redis(port=any_server.port) as client:
        [key] = client.scan_iter("*:c:*:x")
        client.delete(key)
    asyncio.run(told(any_server, face, tmp_path))
    assert truth(any_server, ["x", "y"]) == {b"x": 0, b"y": 1}
