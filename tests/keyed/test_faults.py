"""Whatever is lost, cut off, repeated or killed: a key has counted once, a user is counted if he likes."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis

from redis_counters import Counters, Unavailable
from redis_counters.testing import LossyLink
from tests.faces.either import FACES, Either, client_of, closed, once, truth
from tests.keyed.support import KEYS, done, users
from tests.lifecycle.children import ended_well, forked
from tests.servers import RealServer

ROOT = Path(__file__).parents[2]

both = pytest.mark.parametrize("face", FACES)
forking = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


async def insisting(call: Any, *arguments: Any) -> bool:
    """Return the answer of a call that is repeated until there is one."""
    while True:
        try:
            answer: bool = await done(call(*arguments))
        except Unavailable:
            await asyncio.sleep(0.01)  # after some failures in a row, calls fail at once for a moment
            continue
        return answer


@pytest.mark.every(2, "seconds each")
@both
@pytest.mark.parametrize("fault", ["drop_reply", "cut_before"])
def test_every_command_is_lost_once(any_server: RealServer, face: str, fault: str) -> None:
    """The n-th command of a life is lost, for each n up to beyond its end; the caller repeats what fails."""
    sent = 0
    for nth in range(1, 40):
        name = f"c{nth}"
        with LossyLink(any_server.url) as link:

            async def main(link: LossyLink = link, name: str = name) -> None:
                client = client_of(face, any_server, port=urlsplit(link.url).port, retry=once(face))
                async with Either(face, client, shards=3, namespace=name) as either:
                    counters = either.counters
                    likes = counters.likes("l")
                    for i in range(3):
                        await insisting(counters.incr_once, "c", f"{i}", 10)
                        await insisting(likes.like, i)
                        await insisting(counters.seed, "s", 7, f"{i}")
                    await insisting(likes.unlike, 0)
                    assert await insisting(counters.incr_once, "c", "0", 10) is False
                    assert await insisting(likes.has, 1) is True
                    assert await insisting(likes.has, 0) is False
                await closed(client)

            getattr(link, fault)(every=nth, times=1)
            asyncio.run(main())
            sent = sum(link.commands.values())
            lost = link.dropped + link.cut
        assert truth(any_server, ["c", "l", "s"], namespace=name) == {b"c": 30, b"l": 2, b"s": 21}
        if not lost:
            break
    assert 10 < sent < nth + 10


@pytest.mark.every(2, "seconds each")
@both
@pytest.mark.parametrize("fault", ["drop_reply", "cut_before"])
def test_many_callers_over_a_bad_link(any_server: RealServer, face: str, fault: str) -> None:
    """A third of the scripts is lost, and redis-py repeats by itself; 40 keys, each from 5 callers."""
    chance = random.Random(1)
    keys = [f"{i}" for i in range(40)] * 5
    chance.shuffle(keys)

    async def main(link: LossyLink) -> None:
        async with Either.url(face, link.url, shards=4) as either:

            async def call(key: str) -> None:
                while True:
                    try:
                        await either.background("incr_once", "c", key, 3)
                        return
                    except Unavailable:
                        await asyncio.sleep(0.01)

            await asyncio.gather(*(call(key) for key in keys))
            link.heal()
            assert await either.get("c") == 120

    with LossyLink(any_server.url) as link:
        getattr(link, fault)(probability=0.3, seed=7, commands={"EVALSHA", "EVAL"})
        asyncio.run(main(link))
        assert link.dropped + link.cut > 3
    assert truth(any_server, ["c"]) == {b"c": 120}


def test_redis_py_with_its_default_retries(any_server: RealServer) -> None:
    """Where a plain INCR of the same client counts a lost reply again, a key counts once."""
    with LossyLink(any_server.url) as link:
        client = redis.Redis(port=urlsplit(link.url).port or 0)
        with client, Counters(client) as counters:
            counters.incr_once("c", "warm")
            link.drop_reply(every=1, times=2, commands={"INCRBY"})
            client.incr("plain")
            link.drop_reply(every=1, times=2, commands={"EVALSHA"})
            counters.incr_once("c", "k")
            counters.likes("l").like("u")
            assert link.dropped == 4
            assert int(client.get("plain")) == 3  # type: ignore[arg-type] # it is there
    assert truth(any_server, ["c", "l"]) == {b"c": 2, b"l": 1}


@pytest.mark.parametrize("shards", [1, 4])
class TestProcesses:
    """Eight processes at once."""

    pytestmark = forking

    def test_the_same_keys(self, any_server: RealServer, shards: int) -> None:
        """Each key counts in exactly one of them, who is told so."""

        def work() -> None:
            with (
                redis.Redis(host=any_server.host, port=any_server.port) as client,
                Counters(client, shards=shards) as counters,
            ):
                told = 0
                keys = [f"{i}" for i in range(200)]
                random.Random(os.getpid()).shuffle(keys)
                for key in keys:
                    told += counters.incr_once("c", key, 2)
                counters.incr("told", told)

        ended_well(*(forked(work) for _ in range(8)))
        assert truth(any_server, ["c", "told"]) == {b"c": 400, b"told": 200}

    def test_one_user_from_all_of_them(self, any_server: RealServer, shards: int) -> None:
        """He likes and unlikes a few things at random everywhere: in the end, the value is the set."""

        def work() -> None:
            chance = random.Random(os.getpid())
            with (
                redis.Redis(host=any_server.host, port=any_server.port) as client,
                Counters(client, shards=shards) as counters,
            ):
                ids: list[str | bytes | int] = [1, "1", b"1", 2]
                things = [counters.likes(f"thing {i}") for i in range(3)]
                changes = 0
                for _ in range(150):
                    thing, user = chance.choice(things), chance.choice(ids)
                    changes += (thing.like if chance.random() < 0.5 else thing.unlike)(user)
                assert changes

        ended_well(*(forked(work) for _ in range(8)))
        for i in range(3):
            name = f"thing {i}".encode()
            who = users(any_server, name, shards)
            assert who <= {b"1", b"2"}
            assert truth(any_server, [name]) == {name: len(who)}

    def test_a_child_of_a_process_that_counts(self, any_server: RealServer, shards: int) -> None:
        """Whatever its parent's threads were doing, but for looking up a host: libc's lock would stay held."""
        client = redis.Redis(host=any_server.host, port=any_server.port)
        with client, Counters(client, shards=shards) as counters:
            stop, connected = threading.Event(), threading.Barrier(4)

            def busy(number: int) -> None:
                counters.incr_once("parent", f"{number}")
                connected.wait()
                n = 0
                while not stop.is_set():
                    n += 1
                    counters.incr_once("parent", f"{number} {n}")

            def work() -> None:
                for i in range(20):
                    counters.incr_once("c", f"{i}")
                counters.close(10)

            threads = [threading.Thread(target=busy, args=(number,)) for number in range(3)]
            for thread in threads:
                thread.start()
            connected.wait()
            children = [forked(work) for _ in range(4)]
            ended_well(*children)
            stop.set()
            for thread in threads:
                thread.join()
        assert truth(any_server, ["c"]) == {b"c": 20}


CHILD = """
import sys
from redis_counters import Counters
counters = Counters.from_url(sys.argv[1], shards=3)
likes = counters.likes("l")
for i in range(int(sys.argv[2])):
    counters.incr_once("c", str(i), 5)
    likes.like(i)
    counters.seed("s", i + 1, "t")
    print(i, flush=True)
"""


@pytest.mark.slow("a dozen processes")
def test_killed_at_any_moment(any_server: RealServer) -> None:
    """Each process is killed a little further on, and the next does it all again; none counts anything twice."""
    most = 60
    for turn in range(6):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, any_server.url, str(most)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
        )
        assert child.stdout is not None
        for _ in range(10 * turn + 5):
            assert child.stdout.readline()
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
        found = truth(any_server, ["c", "l"])
        assert found[b"c"] in range(5 * (10 * turn + 5), 5 * most + 1, 5)
        assert found[b"l"] == len(users(any_server, b"l", 3))
    last = subprocess.run(
        [sys.executable, "-c", CHILD, any_server.url, str(most)],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
    )
    assert last.returncode == 0
    assert truth(any_server, ["c", "l", "s"]) == {b"c": 5 * most, b"l": most, b"s": most}


@both
def test_everything_in_redis_is_lost(any_server: RealServer, face: str) -> None:
    """After FLUSHALL keys count anew, in all shards, and other clients see it all."""
    client = any_server.client()

    async def main() -> None:
        async with Either.on(face, any_server, shards=4) as either, Either.on(face, any_server) as other:
            for turn in range(3):
                for i in range(20):
                    assert await done(either.counters.incr_once("c", f"{i}")) is True, (turn, i)
                    assert await done(either.counters.likes("l").like(i)) is True, (turn, i)
                    await done(either.counters.seed("s", 5, f"{i}"))
                assert await other.get_many(["c", "l", "s"], max_age=0) == {"c": 20, "l": 20, "s": 100}
                assert await either.get_many(["c", "l", "s"]) == {"c": 20, "l": 20, "s": 100}
                client.flushall()

    asyncio.run(main())


def test_a_fail_over_takes_back_count_and_record_together(any_server: RealServer) -> None:
    """All that was written after some moment is gone, also in the middle of a batch: whoever repeats it counts it."""
    client: Any = any_server.client()

    def contents() -> dict[bytes, tuple[bytes, int]]:
        return {key: (client.dump(key), max(client.pttl(key), 0)) for key in client.scan_iter(count=1000)}

    with redis.Redis(port=any_server.port) as own, Counters(own, shards=3) as counters:
        for i in range(30):
            counters.incr_once("c", f"{i}")
            counters.likes("l").like(i)
            if i == 19:
                kept = contents()
        client.flushall()
        for key, (value, left) in kept.items():
            client.restore(key, left, value)
        assert [counters.incr_once("c", f"{i}") for i in range(30)] == [False] * 20 + [True] * 10
        assert [counters.likes("l").like(i) for i in range(30)] == [False] * 20 + [True] * 10
        assert counters.get_many(["c", "l"]) == {"c": 30, "l": 30}
        assert len(users(any_server, b"l", 3)) == 30


@both
def test_shard_0_is_lost(any_server: RealServer, face: str) -> None:
    """What it tells of the others is told again with the first key that comes to it; what is in the others counts."""
    client = any_server.client()

    async def main() -> None:
        async with Either.on(face, any_server, shards=4) as either:
            for i in range(40):
                await done(either.counters.incr_once("c", f"{i}"))
            gone = int(client.hget(KEYS.shard_key(b"c", 0)[1], "+"))  # type: ignore[arg-type] # it is there
            assert 0 < gone < 40
            client.delete(KEYS.shard_key(b"c", 0)[1])
            for i in range(40, 80):
                assert await done(either.counters.incr_once("c", f"{i}")) is True
            for i in range(80):
                assert await done(either.counters.incr_once("c", f"{i}")) is False
            assert await either.get("c") == 80 - gone
            assert client.hmget(KEYS.shard_key(b"c", 0)[1], "o", "k") == [b"4", b"4"]

    asyncio.run(main())
