"""A client that is dropped without close() is told of, gets across what it has, and leaves nothing running."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import warnings
import weakref
from pathlib import Path
from typing import Any

import pytest
import redis

import redis_counters
import redis_counters.asyncio
from redis_counters.drivers.process import atexit_hooks, finalizer
from redis_counters.testing import LossyLink
from tests.faces.either import FACES, truth
from tests.servers import RealServer

PATIENCE = 30.0  # seconds


# Who drops a client is warned, which is an error in tests.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <redis_counters:ResourceWarning")


def ours() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("redis-counters")]


def connected(server: RealServer) -> int:
    with redis.Redis(port=server.port) as client:
        found: Any = client.info("clients")
    return int(found["connected_clients"])


def made(face: str, url: str, **options: Any) -> Any:
    module = redis_counters if face == "blocking" else redis_counters.asyncio
    return module.Counters.from_url(url, flush_interval=0.05, **options)


async def awaited(result: Any) -> Any:
    return await result if asyncio.iscoroutine(result) else result


async def gone(runner: weakref.ref[Any], server: RealServer, connections: int) -> None:
    """No thread, task or connection of it is left, and nobody holds it."""
    deadline = time.monotonic() + PATIENCE
    while True:
        gc.collect()
        tasks = [task for task in asyncio.all_tasks() if task.get_name() == "redis-counters"]
        if runner() is None and not ours() and not tasks and connected(server) <= connections:
            return
        assert time.monotonic() < deadline, (runner(), ours(), tasks, connected(server))
        await asyncio.sleep(0.02)


USES = ("nothing", "read", "counted", "counted and flushed", "counted in a cycle", "counted with a journal", "keyed")


@pytest.mark.every(5, "seconds each")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("face", FACES)
def test_dropped(any_server: RealServer, tmp_path: Path, face: str, use: str) -> None:
    """Whatever it was used for: all that was counted is in Redis, and nothing of it is left."""
    connections = connected(any_server)

    async def main() -> None:
        counters = made(face, any_server.url, **({"journal": tmp_path} if "journal" in use else {}))
        if use == "read":
            assert await awaited(counters.get("x")) == 0
        elif use == "keyed":
            assert await awaited(counters.incr_once("x", "key"))
        elif use != "nothing":
            for _ in range(100):
                counters.incr("x")
        if "flushed" in use:
            await awaited(counters.flush())
        runner = weakref.ref(counters._runner)
        if "cycle" in use:
            counters.itself = counters
        del counters
        await gone(runner, any_server, connections)

    asyncio.run(main())
    expected = 100 if "counted" in use else int(use == "keyed")
    assert truth(any_server, ["x"]) == {b"x": expected}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.every(2, "seconds each")
@pytest.mark.parametrize("face", FACES)
def test_dropped_while_redis_is_away(any_server: RealServer, face: str) -> None:
    """It goes on trying until all is across, and ends then."""
    connections = connected(any_server)

    async def main() -> None:
        with LossyLink(any_server.url) as link:
            counters = made(face, link.url)
            counters.incr("x")
            await awaited(counters.flush())
            link.stop()
            counters.incr("x", 10)
            runner = weakref.ref(counters._runner)
            failures = counters.stats().failures
            core = counters._core
            del counters
            while core.failures < failures + 2:
                await asyncio.sleep(0.01)
            link.start()
            await gone(runner, any_server, connections + 1)

    asyncio.run(main())
    assert truth(any_server, ["x"]) == {b"x": 11}


@pytest.mark.every(3, "a second each")
@pytest.mark.parametrize("failures", [1, 8])
@pytest.mark.parametrize("face", FACES)
def test_dropped_after_reads_that_failed(private_server: RealServer, face: str, failures: int) -> None:
    """What is kept of an error, for others or by the breaker, holds nobody in whose call it came up."""
    connections = connected(private_server)

    async def main() -> None:
        with LossyLink(private_server.url) as link:
            link.stop()
            counters = made(face, link.url)
            for _ in range(failures):
                with pytest.raises(redis_counters.Unavailable):
                    await awaited(counters.get("x", max_age=0))
            runner = weakref.ref(counters._runner)
            del counters
            await gone(runner, private_server, connections)

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_dropped_after_a_read_that_failed_for_many(private_server: RealServer, face: str) -> None:
    """So it is with those who waited for somebody else's read, and got its error."""
    connections = connected(private_server)

    async def failing(counters: Any) -> None:
        with pytest.raises(redis_counters.Unavailable):
            await (counters.get("x") if face == "asyncio" else asyncio.to_thread(counters.get, "x"))

    async def main() -> None:
        counters = made(face, f"{private_server.url}?socket_timeout=0.5")
        private_server.pause()
        await asyncio.gather(*(failing(counters) for _ in range(3)))
        private_server.resume()
        runner = weakref.ref(counters._runner)
        del counters
        await gone(runner, private_server, connections)

    asyncio.run(main())


@pytest.mark.every(2, "seconds each")
@pytest.mark.parametrize("face", FACES)
def test_a_handle_holds_it(any_server: RealServer, face: str) -> None:
    """As long as there is a handle, or a method of one, it can be counted with."""
    connections = connected(any_server)

    async def main() -> None:
        counters = made(face, any_server.url)
        runner = weakref.ref(counters._runner)
        counter = counters.counter("x")
        del counters
        gc.collect()
        counter.incr()
        incr = counter.incr
        del counter
        gc.collect()
        incr(10)
        assert runner() is not None
        del incr
        await gone(runner, any_server, connections)

    asyncio.run(main())
    assert truth(any_server, ["x"]) == {b"x": 11}


@pytest.mark.every(2, "seconds each")
@pytest.mark.parametrize("face", FACES)
def test_warned_of_once(any_server: RealServer, face: str) -> None:
    """A ResourceWarning names what was not closed; there is none for what was closed."""

    async def main() -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ResourceWarning)
            for closing in (True, False):
                counters = made(face, any_server.url, namespace=f"closed-{closing}")
                counters.incr("x")
                if closing:
                    await awaited(counters.close())
                runner = weakref.ref(counters._runner)
                del counters
                while runner() is not None:
                    gc.collect()
                    await asyncio.sleep(0.02)
        return [str(each.message) for each in caught if each.category is ResourceWarning]

    [message] = asyncio.run(main())
    assert message.startswith("unclosed <redis_counters.")
    assert "closed-False" in message


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("journal", [False, True])
@pytest.mark.parametrize("face", FACES)
def test_nothing_is_said_of_what_was_never_used(
    any_server: RealServer, tmp_path: Path, face: str, journal: bool
) -> None:
    """A client that has not begun anything needs no end; nobody is warned."""
    counters = made(face, any_server.url, **({"journal": tmp_path} if journal else {}))
    runner = weakref.ref(counters._runner)
    del counters
    gc.collect()
    assert runner() is None


def test_at_exit_nobody_is_warned(monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder) -> None:
    """A program may end without closing: the hook of exit closes what is left."""
    for deadline in (0.0, None):
        monkeypatch.setattr(atexit_hooks, "_deadline", deadline)
        finalizer._dropped("a client", lambda: True)
        assert len(recwarn) == (deadline is None)
