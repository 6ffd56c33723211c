"""Closing delivers, folds and ends everything, within its time, once; afterwards nothing is counted silently."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from redis_counters import Unavailable, UsageError
from tests.faces.either import FACES, Either, client_of, closed, once, truth
from tests.servers import RealServer
from tests.waiting import until, until_async


@pytest.fixture
def ours() -> Callable[[], list[str]]:
    """Return a function that names the threads of this library that a test has started and that are alive."""
    before = set(threading.enumerate())

    def alive() -> list[str]:
        new = (thread.name for thread in threading.enumerate() if thread not in before)
        of_the_process = "redis-counters-watch"  # it ends by itself when nobody has waited for a while
        return [name for name in new if name.startswith("redis-counters") and name != of_the_process]

    return alive


@pytest.mark.parametrize("face", FACES)
def test_close_folds(server: RealServer, face: str, ours: Callable[[], list[str]]) -> None:
    """After close each shard is a base and a dot: no slot, no floor, no open actor, no thread, no task."""

    async def main() -> None:
        before = set(asyncio.all_tasks())
        async with Either.on(face, server, shards=3) as counters:
            for i in range(300):
                counters.incr(f"n{i % 100}", i)
                counters.decr(f"n{i % 7}")
            await counters.flush()
            counters.incr("late")
        assert ours() == []
        assert set(asyncio.all_tasks()) == before

    asyncio.run(main())
    client: Any = server.client()
    shards = client.keys("*:c:*")
    assert len(shards) >= 101
    for key in shards:
        assert set(client.hgetall(key)) <= {b"+", b"-", b"d", b"k"}
    for registry in client.keys("*}:a"):
        records = {f: v for f, v in client.hgetall(registry).items() if f.count(b".") == 2}
        assert all(record.startswith(b"f ") for record in records.values())
    assert truth(server, ["late", "n50"]) == {b"late": 1, b"n50": 50 + 150 + 250}


@pytest.mark.parametrize("face", FACES)
def test_close_is_idempotent_and_final(any_server: RealServer, face: str, ours: Callable[[], list[str]]) -> None:
    """Closing again does nothing; counting, flushing and reading raise UsageError, and nothing is counted."""

    async def main() -> None:
        client = client_of(face, any_server)
        counters = Either(face, client)
        handle = counters.counter("x")
        counters.incr("x", 2)
        for _ in range(3):
            await counters.close()
        for call in (lambda: counters.incr("x"), handle.incr, lambda: handle.decr(2), lambda: counters.add("x", 5)):
            for _ in range(2):
                with pytest.raises(UsageError, match="closed"):
                    call()
        for over in (counters.flush, lambda: counters.get("x", max_age=0), lambda: counters.get("x")):
            with pytest.raises(UsageError, match="closed"):
                await over()
        await counters.close()
        await closed(client)

    asyncio.run(main())
    assert truth(any_server, ["x"]) == {b"x": 2}
    assert ours() == []


@pytest.mark.parametrize("face", FACES)
def test_close_without_any_use(any_server: RealServer, face: str, ours: Callable[[], list[str]]) -> None:
    """A client that was never used closes without asking Redis for anything."""

    async def main() -> None:
        async with Either.on(face, any_server):
            pass
        async with Either.on(face, any_server) as counters:
            counters.incr("x", 0)

    asyncio.run(main())
    assert ours() == []
    assert any_server.client().keys("*:c:*") == []


@pytest.mark.parametrize("face", FACES)
def test_the_context_manager_closes_also_after_an_error(any_server: RealServer, face: str) -> None:
    """The error passes, what was counted is in Redis."""

    async def main() -> None:
        client = client_of(face, any_server)
        if face == "blocking":
            from redis_counters import Counters

            with pytest.raises(KeyError), Counters(client) as counters:  # noqa: PT012 - counting comes before the error
                counters.incr("x")
                raise KeyError
        else:
            from redis_counters.asyncio import Counters as AsyncioCounters

            with pytest.raises(KeyError):  # noqa: PT012 - counting comes before the error
                async with AsyncioCounters(client) as counting:
                    counting.incr("x")
                    raise KeyError
        await closed(client)

    asyncio.run(main())
    assert truth(any_server, ["x"]) == {b"x": 1}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("how", ["down", "hanging"])
def test_close_with_redis_away(
    private_server: RealServer,
    face: str,
    how: str,
    caplog: pytest.LogCaptureFixture,
    ours: Callable[[], list[str]],
) -> None:
    """It ends in time and tells what is lost, per counter, in the error and the log; then the client is closed."""

    async def main() -> None:
        client = client_of(face, private_server, socket_timeout=30, retry=once(face))
        counters = Either(face, client, flush_interval=0.01)
        counters.incr("x", 10)
        await counters.flush()
        if how == "down":
            private_server.kill()
        else:
            private_server.pause()
        counters.incr("x", 5)
        counters.decr("y")
        with caplog.at_level(logging.ERROR), pytest.raises(Unavailable) as caught:
            await counters.close(0.3)
        assert caught.value.pending == {"x": 5, "y": -1}
        told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        assert len([line for line in told if "'x'" in line and "5" in line]) == 1
        assert len([line for line in told if "'y'" in line and "-1" in line]) == 1
        assert counters.stats().undelivered == 2
        with pytest.raises(UsageError, match="closed"):
            counters.incr("x")
        await counters.close(0.3)
        if how == "hanging":
            private_server.resume()
        await closed(client)

    asyncio.run(main())
    until(lambda: not ours(), "no thread is left")


@pytest.mark.parametrize("face", FACES)
def test_close_while_counting_goes_on(any_server: RealServer, face: str) -> None:
    """Every call that did not raise counts, also those made while another thread or task closes."""
    counted = [0] * 4

    async def main() -> None:
        client = client_of(face, any_server)
        counters = Either(face, client, flush_interval=0.001)
        begun = [threading.Event() for _ in counted]

        def count(number: int) -> None:
            for _ in range(200_000):
                try:
                    counters.incr("x")
                except UsageError:
                    return
                counted[number] += 1
                begun[number].set()

        async def count_in_loop(number: int) -> None:
            for _ in range(200_000):
                try:
                    counters.incr("x")
                except UsageError:
                    return
                counted[number] += 1
                begun[number].set()
                await asyncio.sleep(0)

        if face == "blocking":
            working = [asyncio.to_thread(count, n) for n in range(4)]
        else:
            working = [count_in_loop(n) for n in range(4)]
        tasks = [asyncio.ensure_future(work) for work in working]
        for event in begun:
            await until_async(event.is_set, "everybody counts")
        left: dict[Any, int] = {}
        try:
            await counters.background("close", 0.5)
        except Unavailable as error:
            left = dict(error.pending)
        await asyncio.wait_for(asyncio.gather(*tasks), 20)
        await closed(client)
        assert truth(any_server, ["x"])[b"x"] + left.get("x", 0) == sum(counted)

    asyncio.run(main())
    assert min(counted) > 0
