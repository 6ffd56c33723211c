"""What a fail-over took back is told again by whoever counted it, also where nothing has been counted since."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from typing import Any

import pytest
import redis

from redis_counters import Counters
from redis_counters.asyncio import Counters as AsyncioCounters
from redis_counters.drivers.process import atexit_hooks, fork_hooks
from redis_counters.drivers.tasks import TaskRunner
from tests.faces.either import truth
from tests.servers import RealServer


def test_one_loss_makes_every_actor_look(any_server: RealServer) -> None:
    """One bucket finds that its registry is gone; the others, with nothing to send, tell their totals again too."""
    names = [f"n{i}" for i in range(64)]
    with Counters.from_url(any_server.url) as counters:
        for name in names:
            counters.incr(name, 7)
        counters.flush()
        any_server.client().flushall()
        counters.incr(names[0])
        counters.flush()
        assert truth(any_server, names) == {n.encode(): 8 if n == names[0] else 7 for n in names}


def test_the_number_of_shards_is_told_again(any_server: RealServer) -> None:
    """It is in another bucket than the slot that the process goes on writing, and a new reader depends on it."""
    writers = [Counters.from_url(any_server.url, shards=64) for _ in range(3)]
    for counters in writers:
        counters.incr("hot", 100)
        counters.flush()
    any_server.client().flushall()
    for counters in writers:
        counters.incr("hot", 11)
        counters.flush()
    with Counters.from_url(any_server.url) as reader:
        assert reader.get("hot") == 333
    for counters in writers:
        counters.close()


def test_who_fell_silent_asks(any_server: RealServer) -> None:
    """Within the re-assert window a process looks by itself whether its counts are there, and tells them again."""
    with Counters.from_url(any_server.url, reassert_window=1.0) as counters:
        counters.incr("x", 5)
        counters.flush()
        any_server.client().flushall()
        end = time.monotonic() + 20
        while truth(any_server, ["x"]) != {b"x": 5}:
            assert time.monotonic() < end
            time.sleep(0.05)


def test_counting_before_a_loop_runs(any_server: RealServer) -> None:
    """What is counted at import time is sent as soon as something is counted inside of the loop."""
    client: Any = redis.asyncio.Redis(port=any_server.port)
    counters = AsyncioCounters(client, flush_interval=0.01)
    for _ in range(10):
        counters.incr("x")

    async def main() -> None:
        counters.incr("x")
        for _ in range(500):
            if any_server.client().keys("*:c:*"):
                break
            await asyncio.sleep(0.01)
        assert truth(any_server, ["x"]) == {b"x": 11}
        await counters.close()
        await client.aclose()

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore:unclosed <redis_counters:ResourceWarning")
def test_a_loop_ends_though_the_client_was_not_closed(any_server: RealServer) -> None:
    """The background task gives way to the cancellation that comes with the end of asyncio.run."""

    async def main() -> None:
        client: Any = redis.asyncio.Redis(port=any_server.port)
        counters = AsyncioCounters(client)
        counters.incr("x")
        await counters.flush()
        counters.incr("x")
        await client.aclose()

    for _ in range(20):
        thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive()
    for each in fork_hooks._forked:
        if isinstance(each, TaskRunner):  # else they would try to deliver at the end of the tests
            atexit_hooks.forget(each)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timer on this platform")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it may hit somebody's finalizer too
@pytest.mark.every(4, "more of the same")
@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("settled", [False, True], ids=["before the first flush", "after it"])
def test_exceptions_of_signal_handlers_lose_nothing(any_server: RealServer, shards: int, settled: bool) -> None:
    """Time-outs of job queues raise in the middle of whatever the main thread does: also while it takes counts in."""
    with Counters.from_url(any_server.url, flush_interval=60, shards=shards) as counters:
        if settled:
            counters.incr("y")
            counters.flush()
        handle = counters.counter("x")
        counted = interrupted = 0
        before = signal.signal(signal.SIGALRM, _explode)
        try:
            for i in range(400):
                for _ in range(5000):
                    handle.incr()
                for _ in range(50):
                    handle.incr(3)
                counted += 5150
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.00005 + i % 40 * 0.00001)
                    counters.stats()
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except TimeoutError:
                    interrupted += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        counters.flush()
        assert interrupted > 3
        assert truth(any_server, ["x"]) == {b"x": counted}


def _explode(_number: int, _frame: object) -> None:
    raise TimeoutError
