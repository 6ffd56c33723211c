"""One client of the asyncio face and several event loops, or threads: it goes on, or says clearly that it cannot."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis.asyncio

from redis_counters import UsageError
from redis_counters.asyncio import Counters
from redis_counters.drivers.process import fork_hooks
from tests.faces.either import truth
from tests.servers import RealServer
from tests.waiting import PATIENCE, until_async

# A loop that ends leaves the connections of its client open: whoever closes a loop without closing the client is told.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning", "ignore:coroutine:RuntimeWarning"
)


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Warnings of what a test leaves behind are its own."""
    yield
    gc.collect()


async def end(counters: Counters, client: Any) -> None:
    await counters.close()
    await client.aclose()


@pytest.mark.parametrize("single", [False, True])
def test_a_loop_after_the_other(any_server: RealServer, single: bool) -> None:
    """asyncio.run again and again with one client: all that was counted in, between and outside of loops is there."""
    client = redis.asyncio.Redis(port=any_server.port, single_connection_client=single)
    counters = Counters(client, flush_interval=0.01)
    handle = counters.counter("x")
    total = 0

    async def use(step: int) -> None:
        nonlocal total
        handle.incr()
        counters.decr("y", 2)
        total += 1
        if step % 3 == 0:
            assert await counters.get("x", max_age=0) == total
        elif step % 3 == 1:
            await counters.flush()
            assert counters.stats().pending == 0
        else:
            await asyncio.gather(*(counters.get("y", max_age=0) for _ in range(3)), counters.flush())

    for step in range(12):
        asyncio.run(use(step))
        handle.incr()
        counters.incr("x", 2**33)
        counters.decr("y", 2)
        counters.add("x", -(2**33))
        total += 1
    asyncio.run(end(counters, client))
    assert truth(any_server, ["x", "y"]) == {b"x": total, b"y": -2 * total}


@pytest.mark.parametrize("when", ["idle", "in a round", "while a read waits"])
def test_a_loop_that_is_closed_in_the_middle(any_server: RealServer, when: str) -> None:
    """Its tasks end nowhere: what was on its way is sent again in the next loop, and nobody waits for the old one."""
    from redis_counters.testing import LossyLink

    with LossyLink(any_server.url) as link:
        client = redis.asyncio.Redis.from_url(link.url)
        counters = Counters(client, flush_interval=0.001)
        loop = asyncio.new_event_loop()
        counters.incr("x", 10)
        loop.run_until_complete(counters.flush())
        link.delay(0.2)
        counters.incr("x", 5)
        begun: asyncio.Future[Any] | None = None
        if when == "in a round":
            begun = loop.create_task(counters.flush())
        elif when == "while a read waits":
            begun = loop.create_task(counters.get("x", max_age=0))
        loop.run_until_complete(asyncio.sleep(0.05))
        loop.close()
        del begun
        link.heal()
        counters.incr("x")

        async def after() -> None:
            counters.incr("x")
            assert await asyncio.wait_for(counters.get("x", max_age=0), PATIENCE) == 17
            await asyncio.wait_for(counters.flush(), PATIENCE)
            await end(counters, client)

        asyncio.run(after())
    assert truth(any_server, ["x"]) == {b"x": 17}


def test_two_loops_at_a_time(any_server: RealServer) -> None:
    """In a loop beside its own what needs the loop raises UsageError, and says why; counting counts."""
    client = redis.asyncio.Redis(port=any_server.port)
    counters = Counters(client, flush_interval=0.01)

    async def first() -> None:
        counters.incr("x")
        await counters.flush()

    async def second() -> None:
        for call in (
            lambda: counters.get("x", max_age=0),
            lambda: counters.get_many(["x"]),
            counters.flush,
            counters.close,
            lambda: counters.inspect("x"),
        ):
            with pytest.raises(UsageError, match="event loop"):
                await call()
        counters.incr("x", 10)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(first())
    other = threading.Thread(target=lambda: asyncio.run(second()))
    other.start()
    other.join(20)
    beside = asyncio.new_event_loop()
    beside.run_until_complete(second())
    beside.close()
    loop.run_until_complete(end(counters, client))
    loop.close()
    assert truth(any_server, ["x"]) == {b"x": 21}


def test_other_threads_count(any_server: RealServer) -> None:
    """Handlers that a framework runs in threads count in the client of the loop; figures are theirs too."""
    threads, each = 8, 2000
    before = sys.getswitchinterval()
    counted = refused = 0
    lock = threading.Lock()

    def work(counters: Counters) -> None:
        nonlocal counted, refused
        handle = counters.counter("x")
        for i in range(each):
            handle.incr()
            counters.incr("y", 3)
            if i % 500 == 0:
                assert counters.stats().accepted >= 0
            try:
                counters.incr("big", 2**40)
            except UsageError:
                with lock:
                    refused += 1
            with lock:
                counted += 1

    async def main() -> None:
        client = redis.asyncio.Redis(port=any_server.port)
        counters = Counters(client, flush_interval=0.001)
        counters.incr("x")
        working = [asyncio.to_thread(work, counters) for _ in range(threads)]

        async def here() -> None:
            for _ in range(each):
                counters.incr("x")
                counters.incr("big", 2**40)
                await asyncio.sleep(0)

        await asyncio.gather(here(), *working)
        await asyncio.to_thread(counters.incr, "z")  # a single one, from a thread, and then silence
        await until_async(lambda: asyncio.to_thread(lambda: truth(any_server, ["z"]) == {b"z": 1}), "z is delivered")
        await end(counters, client)

    try:
        sys.setswitchinterval(1e-5)
        asyncio.run(main())
    finally:
        sys.setswitchinterval(before)
    assert counted == threads * each
    assert refused == counted
    assert truth(any_server, ["x", "y", "big"]) == {
        b"x": 1 + (threads + 1) * each,
        b"y": 3 * threads * each,
        b"big": each * 2**40,
    }


def test_counting_without_any_loop(any_server: RealServer) -> None:
    """Before the first loop and after the last, by the main thread and by others: all of it is delivered by close."""
    client = redis.asyncio.Redis(port=any_server.port)
    counters = Counters(client)

    def count() -> None:
        for i in range(1000):
            counters.incr("x")
            counters.incr(f"n{i % 3}", 2)

    def in_threads() -> None:
        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        count()
        for thread in threads:
            thread.join(20)

    in_threads()
    asyncio.run(counters.flush())
    in_threads()
    asyncio.run(end(counters, client))
    assert truth(any_server, ["x", "n0", "n1", "n2"]) == {b"x": 10_000, b"n0": 6680, b"n1": 6660, b"n2": 6660}


def test_a_loop_that_ends_without_close_leaves_no_task(any_server: RealServer) -> None:
    """asyncio.run cancels the task; nothing starts another one in the loop that ends."""
    said: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: said.append(context))
        counters.incr("x")
        await counters.flush()
        counters.incr("x")

    for _ in range(10):
        client = redis.asyncio.Redis(port=any_server.port)
        counters = Counters(client, flush_interval=60)
        asyncio.run(main())
        asyncio.run(end(counters, client))
    gc.collect()
    assert said == []
    assert truth(any_server, ["x"]) == {b"x": 20}
    assert not [each for each in fork_hooks._forked if each is counters._runner]
