"""Forks at any moment: whatever another thread of the parent holds or does, the child counts, flushes and ends."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
import redis.asyncio

import redis_counters.asyncio
from redis_counters import Counters
from redis_counters.drivers.redis_py import after_fork
from redis_counters.testing import LossyLink
from tests.faces.either import truth
from tests.lifecycle.children import FORKS, ended_well, forked, program
from tests.servers import RealServer

pytestmark = FORKS
ALARM = 30  # seconds until a child that hangs is killed


@contextmanager
def counting(counters: Counters, threads: int) -> Iterator[list[int]]:
    """Threads count and read without pause; yields how often each has counted."""
    over = threading.Event()
    counted = [0] * threads

    def count(number: int) -> None:
        while not over.is_set():
            counters.incr("x")
            counters.add(f"n{counted[number] % 10}", 2)
            counters.get("x", max_age=0 if counted[number] % 8 == 0 else None)
            counted[number] += 1

    working = [threading.Thread(target=count, args=(n,)) for n in range(threads)]
    for thread in working:
        thread.start()
    try:
        yield counted
    finally:
        over.set()
        for thread in working:
            thread.join(20)
    assert not any(thread.is_alive() for thread in working)


class Nowhere(io.StringIO):
    """What is written is gone. A file has a lock of Python's own, which no child gets free if a thread held it."""

    def write(self, text: str) -> int:
        return len(text)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.slow("forks until a lock was held")
def test_a_lock_copied_in_locked_state(any_server: RealServer, shards: int) -> None:
    """Eight threads count and read, all loggers on DEBUG; of 200 forked children every one counts, flushes and ends."""
    forks = 200 if shards == 1 else 40
    handler = logging.StreamHandler(Nowhere())
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with (
            redis.Redis(port=any_server.port) as client,
            Counters(client, flush_interval=0.001, shards=shards) as counters,
        ):

            def work() -> None:
                counters.incr("child's")
                counters.flush(ALARM)
                os._exit(0)

            with counting(counters, 8) as counted:
                for _ in range(forks):
                    ended_well(forked(work, ALARM))
    finally:
        root.setLevel(level)
        root.removeHandler(handler)
    twos = {b"n%d" % n: sum(2 * len(range(n, count, 10)) for count in counted) for n in range(10)}
    expected = {b"x": sum(counted), b"child's": forks, **twos}
    assert truth(any_server, expected) == expected


def test_any_lock_of_the_client_is_held_at_the_fork(any_server: RealServer) -> None:
    """One after the other, every lock within a client of redis-py is held by a thread of the parent: no child waits."""
    blocking_pool: Any = redis.BlockingConnectionPool  # without types in redis-py
    for client in (
        redis.Redis(port=any_server.port),
        redis.Redis(port=any_server.port, single_connection_client=True),
        redis.Redis(connection_pool=blocking_pool(port=any_server.port)),
    ):
        with Counters(client) as counters:
            counters.incr("x")
            counters.flush()

            def work(counters: Counters = counters) -> None:
                counters.incr("child's")
                assert counters.get("child's", max_age=0) >= 1
                counters.close(ALARM)

            within = [value for _owner, _name, value in after_fork._attributes(client)]
            locks = {id(lock): lock for lock in within if type(lock) in after_fork._OF_THREADS}.values()
            assert len(locks) >= 2
            for lock in locks:
                with lock:
                    child = forked(work, ALARM)
                ended_well(child)
        client.connection_pool.disconnect()
    assert truth(any_server, ["x"]) == {b"x": 3}
    assert truth(any_server, ["child's"])[b"child's"] >= 6


@pytest.mark.every(2, "seconds each")
@pytest.mark.parametrize("commands", [["EVALSHA"], ["HELLO", "CLIENT"]], ids=["flushing", "connecting"])
def test_in_the_middle_of_a_flush_or_of_connecting(any_server: RealServer, commands: list[str]) -> None:
    """The parent waits for an answer when it forks; the child has nothing of that, and the parent's goes through once.

    A reply that was lost in between makes the parent send again, which counts nothing twice.
    """
    with LossyLink(any_server.url) as link:
        client = redis.Redis.from_url(link.url)
        with client, Counters(client, flush_interval=0.001) as counters:
            if commands == ["EVALSHA"]:
                counters.incr("warm")
                counters.flush()
            link.delay(0.1)
            link.drop_reply(every=3, commands=commands, times=3)
            before = link.forwarded

            def work() -> None:
                assert counters.stats().pending == 0
                counters.incr("child's")
                counters.flush(ALARM)

            for i in range(10):
                counters.incr("x", 5)
                end = time.monotonic() + 10
                while link.forwarded == before and time.monotonic() < end:
                    time.sleep(0.001)
                before = link.forwarded
                ended_well(*(forked(work, 15) for _ in range(2)))
                if i == 5:
                    link.heal()
    assert truth(any_server, ["x", "child's"]) == {b"x": 50, b"child's": 20}


@pytest.mark.slow("many forks")
def test_the_parents_connection_is_not_used_by_the_child(any_server: RealServer) -> None:
    """A client of one connection, in both faces: parent and child count and read at a time, no answer is mixed up."""

    def hammer(counters: Counters, name: str) -> None:
        for i in range(1, 200):
            counters.incr(name, 1000)
            assert counters.get(name, max_age=0) == 1000 * i
            if i % 20 == 0:
                counters.flush(ALARM)

    client = redis.Redis(port=any_server.port, single_connection_client=True)
    number = client.client_id()

    def has_another() -> None:
        assert client.client_id() != number

    with client, Counters(client, flush_interval=0.001) as counters:
        counters.incr("warm")
        counters.flush()
        ended_well(forked(has_another))
        assert client.client_id() == number
        children = [forked(lambda name=f"c{n}": hammer(counters, name)) for n in range(3)]  # type: ignore[misc]
        hammer(counters, "parent's")
        ended_well(*children)
    expected = {b"parent's": 199_000, **{b"c%d" % n: 199_000 for n in range(3)}}
    found = truth(any_server, expected)
    assert found.pop(b"parent's") == 199_000
    assert all(180_000 <= value <= 199_000 for value in found.values())  # they ended without close


@pytest.mark.slow("many forks")
def test_an_asyncio_client_used_before_the_fork(any_server: RealServer) -> None:
    """Parent and children go on with one client of redis.asyncio, each in its own loop: exact, nothing mixed up."""
    client = redis.asyncio.Redis(port=any_server.port)
    counters = redis_counters.asyncio.Counters(client, flush_interval=0.001)

    async def hammer(name: str) -> None:
        for i in range(1, 100):
            counters.incr(name, 1000)
            assert await counters.get(name, max_age=0) == 1000 * i
            if i % 20 == 0:
                await counters.flush(ALARM)

    async def child(name: str) -> None:
        await hammer(name)
        await counters.close()
        await client.aclose()

    async def main() -> None:
        counters.incr("warm")
        await counters.flush()
        counters.incr("parent's", 0)
        pids = [forked_into(child, f"c{n}") for n in range(3)]
        await hammer("parent's")
        await counters.close()
        await client.aclose()
        await asyncio.to_thread(ended_well, *pids)

    def forked_into(work: Any, name: str) -> int:
        def run() -> None:
            asyncio._set_running_loop(None)  # the parent's: it does not run here
            asyncio.run(work(name))

        return forked(run)

    asyncio.run(main())
    expected = {b"warm": 1, b"parent's": 99_000, **{b"c%d" % n: 99_000 for n in range(3)}}
    assert truth(any_server, expected) == expected


@pytest.mark.slow("many forks")
def test_the_background_imports_nothing(any_server: RealServer) -> None:
    """A fork in the middle of an import leaves its lock held in the child: so the threads here import nothing at all.

    Not while connecting by name, flushing, failing, being refused, closing.
    """
    any_server.client().set(b"{rc:0}:c:0:n0", "text")  # not in the program: that would look a host up
    done = program(
        """
import sys, threading
import redis
from redis_counters import Counters, CounterError
port = int(sys.argv[1])
imported = []
def hook(event, args):
    if event == "import" and threading.current_thread().name.startswith("redis-counters"):
        imported.append(args[0])
clients = [redis.Redis("localhost", port), redis.Redis("localhost", 1), redis.Redis("no.such.host.invalid", port)]
made = [Counters(client, flush_interval=0.01, shards=2) for client in clients]
sys.addaudithook(hook)
for counters in made:
    for i in range(20):
        counters.incr(f"n{i}")
        counters.decr("y", 2**40)
    try:
        counters.flush(0.5)
        counters.close(0.5)
    except CounterError:
        pass
assert not imported, imported
print("fine")
""",
        str(any_server.port),
    )
    assert done.stdout == "fine\n", done.stderr
