"""A background that is gone, or never runs: it is noticed, reported, and the work is done."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import redis.asyncio

import redis_counters.asyncio
from redis_counters import Counters, Unavailable
from redis_counters.drivers.threads import background
from redis_counters.events import Event, EventKind
from redis_counters.testing import LossyLink
from tests.faces.either import FACES, Either, client_of, closed, once, truth
from tests.lifecycle.children import program
from tests.servers import RealServer
from tests.waiting import PATIENCE, until


@pytest.fixture
def no_progress(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Threads of the library are started, and stand still until the event is set: as in uWSGI without threads."""
    go = threading.Event()
    keep = background.Background._keep

    def stand_still(self: Any, work: Any, generation: int) -> None:
        go.wait()
        keep(self, work, generation)

    monkeypatch.setattr(background.Background, "_keep", stand_still)
    monkeypatch.setattr(background, "STALLED_S", 0.2)
    yield go
    go.set()


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread of the library can be started."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("redis-counters"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)


@pytest.fixture
def no_daemons(monkeypatch: pytest.MonkeyPatch) -> None:
    """No daemon thread can be made: as in an isolated subinterpreter."""
    make = threading.Thread.__init__

    def refuse(self: threading.Thread, *arguments: Any, daemon: bool | None = None, **options: Any) -> None:
        if daemon:
            raise RuntimeError("daemon threads are disabled in this (sub)interpreter")
        make(self, *arguments, daemon=daemon, **options)

    monkeypatch.setattr(threading.Thread, "__init__", refuse)


def told(events: list[Event]) -> list[Event]:
    return [event for event in events if event.kind is EventKind.FLUSHER_RESTARTED]


@pytest.mark.parametrize("environment", ["no_progress", "no_threads", "no_daemons"])
def test_callers_do_the_work_where_no_thread_does(
    any_server: RealServer, environment: str, request: pytest.FixtureRequest
) -> None:
    """Increments reach Redis by further ones and by reads now and then, by flush and by close; it is told once."""
    request.getfixturevalue(environment)
    events: list[Event] = []
    with any_server.client() as client:
        counters = Counters(client, flush_interval=0.05, observer=events.append)
        counted = 0

        def count() -> None:
            nonlocal counted
            counters.incr("x")
            counters.counter("y").incr(2)
            counted += 1

        until(lambda: truth(any_server, ["x"])[b"x"] > 0, "something is delivered", count)
        before = truth(any_server, ["x"])[b"x"]
        count()
        until(
            lambda: truth(any_server, ["x"])[b"x"] > before, "more is delivered", lambda: counters.get("z", max_age=0)
        )
        count()
        counters.flush()
        assert truth(any_server, ["x", "y"]) == {b"x": counted, b"y": 2 * counted}
        count()
        counters.close()
        assert truth(any_server, ["x", "y"]) == {b"x": counted, b"y": 2 * counted}
    assert len(told(events)) == 1


def test_a_slow_answer_to_a_caller_is_no_sign_of_life(any_server: RealServer, no_progress: threading.Event) -> None:
    """Callers flush, and wait longer than the interval for Redis: the thread that stands still is not taken to run."""
    events: list[Event] = []
    with LossyLink(any_server.url) as link, redis.Redis.from_url(link.url) as client:
        counters = Counters(client, flush_interval=0.01, observer=events.append)
        until(
            lambda: counters._runner.background.unavailable,
            "the flusher is unavailable",
            lambda: counters.incr("x"),
        )
        link.delay(0.05)
        for i in range(20):
            counters.incr("x", 3)
            if i % 5 == 0:
                counters.flush()
            assert counters._runner.background.unavailable
        link.heal()
        accepted = counters.stats().accepted
        assert accepted > 20
        counters.close()
    assert len(told(events)) == 1


@pytest.mark.parametrize("environment", ["no_progress", "no_threads", "no_daemons"])
def test_nothing_is_pending_after_a_flush_at_the_end_of_a_handler(
    any_server: RealServer, environment: str, request: pytest.FixtureRequest
) -> None:
    """As functions that are frozen between calls need it: after flush() nothing waits, and no command is on its way."""
    request.getfixturevalue(environment)
    with any_server.client() as client, Counters(client, flush_interval=60) as counters:
        for i in range(1, 6):
            counters.incr("x", 10)
            counters.flush()
            assert counters.stats().pending == 0
            assert not counters._runner.rounds.lock.locked()
            assert truth(any_server, ["x"]) == {b"x": 10 * i}


def test_without_a_thread_and_without_redis_increments_are_not_held_up_for_long(
    private_server: RealServer, no_threads: None
) -> None:
    """Redis is down: attempts by callers become rare, nothing is lost, and it goes on when Redis is back."""
    with client_of("blocking", private_server, retry=once("blocking")) as client:
        counters = Counters(client, flush_interval=0.01)
        counters.incr("x")
        counters.flush()
        private_server.kill()
        for _ in range(500):
            counters.incr("x")
        assert counters.stats().failures < 100
        with pytest.raises(Unavailable):
            counters.flush(0.2)
        private_server.restart()
        until(lambda: counters.stats().pending == 0, "all is delivered", lambda: counters.incr("y"))
        counters.close()
    assert truth(private_server, ["x"]) == {b"x": 501}  # the first was told again: the server had lost it


def test_a_thread_that_comes_to_itself_takes_over_again(any_server: RealServer, no_progress: threading.Event) -> None:
    """Callers flush while it stands still; when it runs again, it does, and each increment counted once."""
    with any_server.client() as client, Counters(client, flush_interval=0.02) as counters:
        until(
            lambda: counters._runner.background.unavailable,
            "the flusher is unavailable",
            lambda: counters.incr("x"),
        )
        no_progress.set()
        until(lambda: not counters._runner.background.unavailable, "the flusher is back", lambda: counters.incr("x"))
        accepted = counters.stats().accepted
        counters.incr("x")
        until(lambda: truth(any_server, ["x"])[b"x"] == accepted + 1, "it is delivered")


# Raised between the standard library's open() and its `with`, a source shown in a traceback is closed by the collector.
@pytest.mark.every(2, "seconds each")
@pytest.mark.filterwarnings("ignore:.*<_io.FileIO name=.*[.]py:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, MemoryError, RecursionError])
def test_what_ends_threads_does_not_end_the_flusher(any_server: RealServer, error: type[BaseException]) -> None:
    """Raised in the thread itself, wherever it is, again and again: a burst, then silence, is flushed all the same."""
    events: list[Event] = []
    with any_server.client() as client, Counters(client, flush_interval=0.001, observer=events.append) as counters:
        raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
        counted = 0
        for _ in range(10):
            for _ in range(1000):
                counters.incr("x")
                counted += 1
            thread = counters._runner.background._flusher
            assert thread is not None
            raise_in(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(error))
        until(lambda: truth(any_server, ["x"])[b"x"] == counted, "all is delivered")
        until(lambda: counters.stats().pending == 0, "and acknowledged, also what was interrupted")
    if not issubclass(error, Exception):
        assert told(events)


@pytest.mark.slow("a process that waits")
def test_a_thread_that_c_code_ended_is_replaced(any_server: RealServer) -> None:
    """It ends without a word, in the middle of a round, with the round's lock: what was on its way is sent again."""
    if not os.path.isdir("/proc/self/task"):
        pytest.skip("only Linux tells")
    done = program(
        """
import ctypes, os, sys, threading, time
import redis
from redis_counters import Counters
from redis_counters.drivers.redis_py import lanes
from redis_counters.drivers.threads import background
background.STALLED_S = 0.2
events = []
counters = Counters(redis.Redis.from_url(sys.argv[1]), flush_interval=0.01, observer=events.append)
counters.incr("x")
counters.flush()
receive = lanes.BlockingLane.receive
libc = ctypes.CDLL(None)
deadly = 3
def ends_here(self, *args):
    global deadly
    if deadly and threading.current_thread() is not threading.main_thread():
        deadly -= 1
        libc.pthread_exit(None)
    return receive(self, *args)
lanes.BlockingLane.receive = ends_here
for _ in range(4):
    counters.incr("x", 10)
    counters.flush()
time.sleep(0.1)
assert deadly == 0
assert any(event.kind.word == "flusher restarted" for event in events), events
print(int(counters.get("x", max_age=0)))
sys.stdout.flush()
os._exit(0)  # the interpreter would wait for the threads that are no more
""",
        any_server.url,
    )
    assert done.stdout == "41\n", done.stderr
    assert truth(any_server, ["x"]) == {b"x": 41}


def test_a_task_that_was_cancelled_is_replaced(any_server: RealServer) -> None:
    """Somebody cancels all tasks of the loop, as shutdown handlers do: what was counted before is flushed."""
    events: list[Event] = []

    async def main() -> None:
        client = redis.asyncio.Redis(port=any_server.port)
        counters = redis_counters.asyncio.Counters(client, flush_interval=0.02, observer=events.append)
        for round_ in range(1, 4):
            counters.incr("x", 10)
            await asyncio.sleep(0.001 * round_)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            end = time.monotonic() + PATIENCE
            while await asyncio.to_thread(truth, any_server, ["x"]) != {b"x": 10 * round_}:
                assert time.monotonic() < end
                await asyncio.sleep(0.05)
        await counters.close()
        await client.aclose()

    asyncio.run(main())
    assert len(told(events)) >= 3


@pytest.mark.parametrize("face", FACES)
def test_a_burst_and_then_silence(any_server: RealServer, face: str) -> None:
    """After a burst nobody calls anything: all of it arrives."""

    async def main() -> None:
        counters = Either.on(face, any_server, flush_interval=0.2)
        for i in range(20_000):
            counters.incr(f"n{i % 7}")
        end = time.monotonic() + PATIENCE
        names = [f"n{i}" for i in range(7)]
        while sum((await asyncio.to_thread(truth, any_server, names)).values()) != 20_000:
            assert time.monotonic() < end
            await asyncio.sleep(0.05)
        await counters.close()
        await closed(counters._client)

    asyncio.run(main())


ISOLATED = """
import sys
try:
    import _interpreters as interpreters
    made = interpreters.create("isolated")
except ImportError:
    import _xxsubinterpreters as interpreters
    made = interpreters.create(isolated=True)
run = getattr(interpreters, "exec", None) or interpreters.run_string
failed = run(made, f"import sys; sys.path[:] = {sys.path!r}; url = {sys.argv[1]!r}\\n" + sys.argv[2])
assert not failed, failed
"""

INSIDE = """
from redis_counters import Counters

counters = Counters.from_url(url, flush_interval=0.05)
for _ in range(10):
    counters.incr("x")
counters.incr("x", 5)
counters.flush()
assert counters.get("x", max_age=0) == 15
assert counters.incr_once("x", key="a")
counters.incr("x")
counters.close()
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="isolated subinterpreters are of Python 3.12 and later")
def test_an_isolated_subinterpreter(any_server: RealServer) -> None:
    """It refuses daemon threads: callers do the work."""
    done = program(ISOLATED, any_server.url, INSIDE)
    if "does not support loading in subinterpreters" in done.stderr:
        pytest.skip("a module of C that redis-py or Python uses cannot be loaded there")
    assert done.returncode == 0, done.stderr
    assert truth(any_server, ["x"]) == {b"x": 17}
