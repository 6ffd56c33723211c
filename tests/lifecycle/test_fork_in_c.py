"""Forked without Python's hooks, as uWSGI does it: whatever a child does first, it begins anew before it does it.

Where the kernel wipes no page (see `wiped_page`) the first increments of a child cannot be told from its parent's.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from redis_counters import Counters, UsageError
from redis_counters.drivers.process import fork_hooks
from redis_counters.drivers.process import wiped_page as signs
from tests.faces.either import FACES, Either, closed, truth
from tests.lifecycle.children import FORKS, ended_well, forked, forked_in_c, program
from tests.servers import RealServer

pytestmark = [
    *FORKS,
    pytest.mark.skipif(not signs.wiped(fork_hooks.here), reason="this kernel has no MADV_WIPEONFORK"),
]

Work = Callable[[Either], Awaitable[object]]


async def _done(result: Any) -> Any:
    return await result if isinstance(result, Awaitable) else result


async def _end(counters: Either) -> None:
    await counters.close()
    await closed(counters._client)


async def _counts(counters: Either) -> None:
    counters.incr("x")


async def _counts_an_amount(counters: Either) -> None:
    counters.incr("x", 1)
    counters.decr("x", 2)
    counters.add("x", 2)


async def _counts_a_large_amount(counters: Either) -> None:
    counters.incr("x", 2**40)
    counters.decr("x", 2**40 - 1)


async def _counts_by_a_handle(counters: Either) -> None:
    counters.counter("x").incr()


async def _flushes(counters: Either) -> None:
    await counters.flush(10)
    counters.incr("x")


async def _reads(counters: Either) -> None:
    assert await counters.get("x", max_age=0) == 0
    counters.incr("x")


async def _reads_from_the_cache(counters: Either) -> None:
    assert await counters.get("old") == 5  # not what waits in the parent
    counters.incr("x")


async def _reads_from_the_cache_by_a_handle(counters: Either) -> None:
    assert await _done(counters.counter("old").value()) == 5
    counters.incr("x")


async def _reads_many(counters: Either) -> None:
    assert await counters.get_many(["x", "old"], max_age=float("inf")) == {"x": 0, "old": 5}
    counters.incr("x")


async def _calls_by_key(counters: Either) -> None:
    assert await _done(counters.counters.incr_once("x", key="a"))


async def _likes(counters: Either) -> None:
    assert await _done(counters.counters.likes("x").like("a"))


async def _looks_at_its_figures(counters: Either) -> None:
    assert counters.stats().accepted == counters.stats().pending == 0
    counters.incr("x")


async def _inspects(counters: Either) -> None:
    await counters.inspect("x")
    counters.incr("x")


async def _resets(counters: Either) -> None:
    await counters.reset("nothing")
    counters.incr("x")


async def _closes(counters: Either) -> None:
    await counters.close(10)
    with pytest.raises(UsageError):
        counters.incr("x")
    sys.stderr.flush()
    os._exit(0)


FIRST: list[Work] = [
    _counts,
    _counts_an_amount,
    _counts_a_large_amount,
    _counts_by_a_handle,
    _flushes,
    _reads,
    _reads_from_the_cache,
    _reads_from_the_cache_by_a_handle,
    _reads_many,
    _calls_by_key,
    _likes,
    _looks_at_its_figures,
    _inspects,
    _resets,
    _closes,
]


@pytest.mark.every(3, "a process each")
@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("face", FACES)
def test_whatever_a_child_does_first(any_server: RealServer, face: str, first: Work) -> None:
    """What waits in the parent counts once, in the parent; what the child counts is its own, and has its own actor."""

    async def begin() -> None:
        counters.incr("x", 0)
        counters.incr("old", 5)
        await counters.flush()
        assert await counters.get("old") == 5
        for _ in range(700):
            counters.incr("waits")
        counters.incr("waits", 300)
        counters.incr("old", 1000)
        assert await counters.get("old") == 1005

    async def in_child() -> None:
        await first(counters)
        for _ in range(10):
            counters.incr("children's")
        await counters.close(10)

    loop = asyncio.new_event_loop()
    counters = Either.on(face, any_server, flush_interval=60)
    loop.run_until_complete(begin())
    ended_well(forked_in_c(lambda: asyncio.run(in_child())))
    loop.run_until_complete(_end(counters))
    loop.close()
    done = first is not _closes
    assert truth(any_server, ["waits", "old", "x", "children's"]) == {
        b"waits": 1000,
        b"old": 1005,
        b"x": 1 if done else 0,
        b"children's": 10 if done else 0,
    }


def test_threads_of_a_child_come_at_once(any_server: RealServer) -> None:
    """Sixteen threads count as the first thing in a child: it begins anew once, and all that they count is there."""
    with redis.Redis(port=any_server.port) as client, Counters(client, flush_interval=60) as counters:
        handle = counters.counter("x")
        for _ in range(1000):
            handle.incr()

        def work() -> None:
            at_once = threading.Barrier(16)

            def count() -> None:
                at_once.wait(10)
                for _ in range(500):
                    counters.incr("x")
                    handle.incr()
                    counters.add("x", 2)

            threads = [threading.Thread(target=count) for _ in range(16)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(10)
            counters.close(10)

        for _ in range(5):
            ended_well(forked_in_c(work))
    assert truth(any_server, ["x"]) == {b"x": 1000 + 5 * 16 * 500 * 4}


def test_children_of_children(any_server: RealServer) -> None:
    """Each begins anew, whichever way it was forked, and every client in it; actors have nothing in common."""
    with (
        redis.Redis(port=any_server.port) as client,
        Counters(client, flush_interval=60) as first,
        Counters(client, flush_interval=60) as second,
    ):

        def count(generation: int = 0) -> None:
            for counters in (first, second):
                counters.incr("x")
                counters.incr("x", 10)
            if generation < 3:
                fork = forked if generation == 1 else forked_in_c
                ended_well(fork(lambda: count(generation + 1)))
            if generation:
                first.close(10)
                second.close(10)

        count()
    assert truth(any_server, ["x"]) == {b"x": 4 * 2 * 11}


def test_a_lock_that_was_held(any_server: RealServer) -> None:
    """Another thread of the parent has a lock of the client at the fork: the child waits for nobody."""
    with redis.Redis(port=any_server.port) as client, Counters(client, flush_interval=60) as counters:
        counters.incr("x", 7)
        runner = counters._runner

        def work() -> None:
            counters.incr("x", 100)
            counters.flush(10)
            assert counters.get("x", max_age=0) == 100

        for lock in (runner.state.lock, runner.rounds.lock, runner.closing):
            held, over = threading.Event(), threading.Event()

            def hold(lock: Any = lock, held: threading.Event = held, over: threading.Event = over) -> None:
                with lock:
                    held.set()
                    over.wait(20)

            thread = threading.Thread(target=hold)
            thread.start()
            held.wait(10)
            child = forked_in_c(work)
            over.set()
            thread.join(10)
            ended_well(child)
            client.flushdb()
            counters.incr("x")
    assert truth(any_server, ["x"]) == {b"x": 10}


EXIT = """
import ctypes, gc, os, sys
from redis_counters import Counters

counters, dropped = (Counters.from_url(sys.argv[1], flush_interval=60) for _ in range(2))
counters.incr("x")
dropped.incr("x")
child = ctypes.PyDLL(None).fork()
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
else:
    del dropped
    gc.collect()
    if sys.argv[2] == "counts":
        counters.incr("x", 100)
"""


@pytest.mark.parametrize("what", ["nothing", "counts"])
def test_a_child_ends_as_any_process(any_server: RealServer, what: str) -> None:
    """At its exit it delivers what it has counted, and not what its parent had; a client that it drops is nothing."""
    done = program(EXIT, any_server.url, what)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert truth(any_server, ["x"]) == {b"x": 102 if what == "counts" else 2}


EMBEDDED = """
import ctypes, os, sys, tempfile
from redis_counters import Counters

tempfile.tempdir = sys.argv[1]  # where nobody else opens embedded://, of which it would be told

counters = Counters.from_url("embedded://", flush_interval=60)
counters.incr("x")
counters.flush()
child = ctypes.PyDLL(None).fork()
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    print(int(counters.get("x", max_age=0)))
"""


def test_an_embedded_server_is_the_parents(tmp_path: Path) -> None:
    """A child that has not even looked at it ends, hooks of exit and all: the parent's server runs on."""
    done = program(EMBEDDED, str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


@pytest.mark.parametrize("mode", ["interval", "always"])
@pytest.mark.parametrize("face", FACES)
def test_a_journal_is_the_parents(any_server: RealServer, tmp_path: Path, face: str, mode: str) -> None:
    """A child writes into one of its own; its parent's goes on, and is taken over by nobody as long as that lives."""

    async def in_child() -> None:
        counters.incr("x", 100)
        await counters.flush(10)
        counters.incr("x", 1000)
        await counters.close(10)

    async def in_parent() -> None:
        counters.incr("x", 2)
        await counters.flush()
        await _end(counters)

    async def begin() -> None:
        counters.incr("x")
        await counters.flush()
        counters.incr("x", 10)

    loop = asyncio.new_event_loop()
    counters = Either.on(face, any_server, flush_interval=60, journal=tmp_path, journal_mode=mode)
    loop.run_until_complete(begin())
    ended_well(forked_in_c(lambda: asyncio.run(in_child())))
    loop.run_until_complete(in_parent())
    loop.close()
    assert truth(any_server, ["x"]) == {b"x": 1113}
    assert not list(tmp_path.iterdir())


WITHOUT = """
import ctypes, mmap, os, sys, time

def refuse(*arguments, **options):
    raise OSError

mmap.mmap = refuse
from redis_counters.drivers.process import fork_hooks
from redis_counters.drivers.process import wiped_page as signs

assert not signs.wiped(fork_hooks.here)
from redis_counters import Counters

counters = Counters.from_url(sys.argv[1], flush_interval=60)
counters.incr("x", 7)
time.sleep(0.2)
child = ctypes.PyDLL(None).fork()
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
else:
    if sys.argv[2] == "reads":
        assert counters.get("x", max_age=0) == 0
    elif sys.argv[2] == "flushes":
        counters.flush()
    counters.incr("x", 100)
    counters.close()
    os._exit(0)
"""


@pytest.mark.parametrize("first", ["reads", "flushes"])
def test_where_the_kernel_wipes_nothing(any_server: RealServer, first: str) -> None:
    """A process goes by its id then, in all it does but counting."""
    done = program(WITHOUT, any_server.url, first)
    assert (done.returncode, done.stderr) == (0, "")
    assert truth(any_server, ["x"]) == {b"x": 107}


def test_a_sign_is_gone_in_a_child() -> None:
    """The kernel takes it away in children of children too, and gives them their own; the parent keeps its own."""
    sign = signs.new_sign()
    sign.value = True

    def child() -> None:
        assert not sign
        sign.value = True
        ended_well(forked_in_c(grandchild))
        assert sign

    def grandchild() -> None:
        assert not sign

    ended_well(forked_in_c(child), forked(child))
    assert sign
