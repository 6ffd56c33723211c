"""However threads take turns, every increment counts once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from redis_counters import Counters
from redis_counters.drivers.process import atexit_hooks
from tests.faces.either import truth
from tests.servers import RealServer
from tests.waiting import until

THREADS, EACH = 32, 2000


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns as often as the interpreter can let them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("shards", [1, 4])
def test_thirty_two_threads(any_server: RealServer, shards: int) -> None:
    """Handles, names, amounts, decrements, reads and flushes from 32 threads come to the exact sums."""
    errors: list[BaseException] = []
    with redis.Redis(port=any_server.port) as client:
        options: dict[str, Any] = {"flush_interval": 0.001, "max_batch": 4, "shards": shards}
        with Counters(client, **options) as counters:
            one = counters.counter("one")

            def work(number: int) -> None:
                try:
                    own = counters.counter(b"\xff%d" % number)
                    for i in range(EACH):
                        one.incr()
                        if i % 4 == 0:
                            own.incr()
                            counters.incr(f"n{i % 8}", 3)
                            counters.decr("down", 2)
                            counters.incr("big", 2**33)
                        if i % 500 == number:
                            assert one.value() >= i + 1
                            counters.flush(20)
                except BaseException as error:
                    errors.append(error)

            threads = [threading.Thread(target=work, args=(n,)) for n in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert errors == []
            assert one.value() == THREADS * EACH
            assert counters.stats().accepted == THREADS * (EACH + 4 * EACH // 4)
    quarter = EACH // 4
    expected = {
        b"one": THREADS * EACH,
        b"n0": THREADS * quarter // 2 * 3,
        b"n4": THREADS * quarter // 2 * 3,
        b"down": -THREADS * quarter * 2,
        b"big": THREADS * quarter * 2**33,
        **{b"\xff%d" % n: quarter for n in range(THREADS)},
    }
    assert truth(any_server, expected) == expected


@pytest.mark.usefixtures("restless")
def test_many_threads_close_and_flush_at_once(any_server: RealServer) -> None:
    """Concurrent flushes and closes do not disturb each other: all return, everything is delivered."""
    with redis.Redis(port=any_server.port) as client:
        for _ in range(5):
            counters = Counters(client, flush_interval=0.001)
            for i in range(100):
                counters.incr(f"n{i}")
            calls = [counters.flush] * 8 + [counters.close] * 8
            errors: list[BaseException] = []

            def run(call: Any, errors: list[BaseException] = errors) -> None:
                try:
                    call()
                except BaseException as error:
                    errors.append(error)

            threads = [threading.Thread(target=run, args=(call,)) for call in calls]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(20)
            assert not any(thread.is_alive() for thread in threads)
            assert errors == []
    assert set(truth(any_server, [f"n{i}" for i in range(100)]).values()) == {5}


def test_flush_of_one_thread_is_not_held_up_by_another_that_counts(any_server: RealServer) -> None:
    """`flush` returns when what was buffered at its call is in Redis, though others go on counting without pause."""
    with redis.Redis(port=any_server.port) as client, Counters(client, flush_interval=0.001) as counters:
        over = threading.Event()
        counted = 0

        def count() -> None:
            nonlocal counted
            while not over.is_set():
                counters.incr("x")
                counters.incr(f"n{counted % 1000}")
                counted += 1

        thread = threading.Thread(target=count)
        thread.start()
        try:
            for i in range(1, 6):
                counters.incr("mine")
                counters.flush(20)
                assert truth(any_server, ["mine"]) == {b"mine": i}
        finally:
            over.set()
            thread.join(10)
    assert truth(any_server, ["x"]) == {b"x": counted}


@pytest.mark.parametrize("reading", [False, True])
def test_who_counts_nothing_has_no_threads(
    any_server: RealServer, monkeypatch: pytest.MonkeyPatch, reading: bool
) -> None:
    """Nothing is started for a client that only reads, or does nothing: not even to flush and close it.

    Reading has a thread connect, and one see that no answer comes too late; both end by themselves.
    """
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def seen(thread: threading.Thread) -> None:
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", seen)
    monkeypatch.setattr(atexit_hooks, "_deadline", None)  # the process does not end after all
    with redis.Redis(port=any_server.port) as client, Counters(client) as counters:
        if reading:
            assert counters.get("x") == 0
        counters.flush()
        counters.stats()
        counters._runner.ending.deliver()  # as at exit
    assert {thread.name for thread in started} <= {"redis-counters-connect", "redis-counters-watch"}
    assert reading or not started


def test_a_flush_that_is_over_asks_for_no_other(any_server: RealServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits asks again and again; asked after the round that was waited for, nothing is left of it."""
    with Counters.from_url(any_server.url, flush_interval=0.01) as counters:
        runner: Any = counters._runner
        urgent, set_urgent = runner.flusher.urgent, runner.flusher.urgent.set
        late: list[bool] = []

        class Late:
            """The event, set only when what was counted is in Redis by the flush interval."""

            def __getattr__(self, name: str) -> Any:
                return getattr(urgent, name)

            def set(self) -> None:
                until(lambda: runner.core.writer.clean, "a round")
                late.append(True)
                set_urgent()

        monkeypatch.setattr(runner.flusher, "urgent", Late())
        counters.incr("x")
        counters.flush()
        assert late
        assert not urgent.is_set()
