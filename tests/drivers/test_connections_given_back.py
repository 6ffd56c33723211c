"""Whatever comes up while a connection is taken: the pool has it back, closed. Else a pool of a few is soon empty."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
import redis
import redis.asyncio

from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.redis_py import at_hand, errands
from redis_counters.drivers.redis_py.clients import take_connection, take_connection_asyncio
from tests.servers import RealServer
from tests.waiting import PATIENCE, until

ERRORS: list[type[BaseException]] = [
    KeyboardInterrupt,
    GeneratorExit,
    redis.ConnectionError,
    redis.TimeoutError,
    OSError,
]


class Watched:
    """A pool that gives connections whose look for unread answers is interrupted."""

    cache = None

    def __init__(self, pool: Any, error: type[BaseException], *, asyncio: bool) -> None:
        self.pool = pool
        self.error = error
        self.asyncio = asyncio
        self.given: list[Any] = []

    def maint_notifications_enabled(self) -> bool:
        return True

    def disconnect(self, inuse_connections: bool = True) -> Any:
        return self.pool.disconnect(inuse_connections)

    def release(self, connection: Any) -> Any:
        self.given.remove(connection)
        assert not connection.is_connected if self.asyncio else connection._sock is None
        return self.pool.release(connection)

    def get_connection(self, *_command: str) -> Any:
        return self._get_asyncio() if self.asyncio else self._prepared(self.pool.get_connection())

    async def _get_asyncio(self) -> Any:
        return self._prepared(await self.pool.get_connection(), awaited=True)

    def _prepared(self, connection: Any, *, awaited: bool = False) -> Any:
        def interrupted(*_arguments: Any, **_options: Any) -> None:
            raise self.error

        async def interrupted_asyncio(*_arguments: Any, **_options: Any) -> None:
            raise self.error

        connection.can_read = interrupted_asyncio if awaited else interrupted
        self.given.append(connection)
        return connection


@pytest.mark.parametrize("error", ERRORS)
def test_blocking(any_server: RealServer, error: type[BaseException]) -> None:
    """It may be an error of redis-py, or the exception of a signal handler, or a greenlet that is killed."""
    with redis.Redis(port=any_server.port) as client:
        pool = Watched(client.connection_pool, error, asyncio=False)
        with pytest.raises(error):
            take_connection(pool, Deadline())
        assert not pool.given


@pytest.mark.parametrize("error", ERRORS)
def test_asyncio(any_server: RealServer, error: type[BaseException]) -> None:
    """The same, awaited."""

    pools: list[Watched] = []

    async def take() -> None:
        async with redis.asyncio.Redis(port=any_server.port) as client:
            pools.append(pool := Watched(client.connection_pool, error, asyncio=True))
            await take_connection_asyncio(pool, Deadline())

    with pytest.raises(error):
        asyncio.run(take())
    assert not pools[0].given


@pytest.mark.parametrize("in_time", [True, False])
def test_interrupted_while_the_thread_starts_that_connects(
    any_server: RealServer, monkeypatch: pytest.MonkeyPatch, in_time: bool
) -> None:
    """It runs all the same, and nobody takes what it got: by Ctrl-C, or a greenlet is killed where it gives way."""
    start = threading.Thread.start
    threads: list[threading.Thread] = []

    def interrupted(thread: threading.Thread) -> None:
        threads.append(thread)
        start(thread)
        if in_time:
            thread.join()
        raise KeyboardInterrupt

    with redis.Redis(port=any_server.port) as client:
        pool: Any = client.connection_pool
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", interrupted)
            with pytest.raises(KeyboardInterrupt):
                take_connection(pool, Deadline())
        threads[0].join()
        assert (len(pool._in_use_connections), len(pool._available_connections)) == (0, 1)


def test_interrupted_before_it_waits_for_the_thread(any_server: RealServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes there by Ctrl-C takes nothing of what the thread gets."""

    class Interrupted(Deadline):
        looks = 0

        def left(self) -> float:
            self.looks += 1
            if self.looks == 2:  # the first is whether there is any time
                raise KeyboardInterrupt
            return super().left()

    threads: list[threading.Thread] = []
    start = threading.Thread.start

    def started(thread: threading.Thread) -> None:
        threads.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", started)
    with redis.Redis(port=any_server.port) as client:
        pool: Any = client.connection_pool
        with pytest.raises(KeyboardInterrupt):
            errands.within(Interrupted(), pool.get_connection, pool.release)
        threads[0].join()
        assert (len(pool._in_use_connections), len(pool._available_connections)) == (0, 1)


def test_interrupted_while_it_looks_for_one(any_server: RealServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not count as one who takes a connection for ever: then all others would be sent to connect."""

    def interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    with redis.Redis(port=any_server.port) as client:
        monkeypatch.setattr(at_hand, "_has", interrupted)
        with pytest.raises(KeyboardInterrupt):
            take_connection(client.connection_pool, Deadline())
        assert id(client.connection_pool) not in at_hand._taking


@pytest.mark.parametrize("warm", [True, False])
def test_interrupted_wherever_it_calls(any_server: RealServer, warm: bool) -> None:
    """A signal handler that raises at any call of this library's: the pool has back whatever it gave."""

    def interrupt(at: int) -> Callable[[FrameType, str, object], None]:
        seen = itertools.count(1)

        def look(frame: FrameType, event: str, _of: object) -> None:
            if event == "call" and frame.f_globals["__name__"].startswith("redis_counters.") and next(seen) == at:
                sys.setprofile(None)
                raise KeyboardInterrupt

        return look

    with redis.Redis(port=any_server.port) as client:
        pool: Any = client.connection_pool
        pool.release(take_connection(pool, Deadline()))  # what is found out once is known
        for at in itertools.count(1):
            if warm:
                client.ping()
            else:
                pool.disconnect()
            try:
                sys.setprofile(interrupt(at))
                connection = take_connection(pool, Deadline())
            except KeyboardInterrupt:
                until(lambda: not pool._in_use_connections, "the pool has it back")
            else:
                break
            finally:
                sys.setprofile(None)
        pool.release(connection)
        assert at > 5


class Slow:
    """A pool whose connections come when the test says so, whoever waits, and whatever cancels that."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        self.may_come = threading.Event()
        self.given: list[Any] = []
        self.released: list[Any] = []

    def release(self, connection: Any) -> Any:
        self.released.append(connection)
        return self.pool.release(connection)

    def get_connection(self, *_command: str) -> Any:
        if isinstance(self.pool, redis.asyncio.ConnectionPool):
            return self._get_asyncio()
        self.may_come.wait(PATIENCE)
        self.given.append(self.pool.get_connection())
        return self.given[-1]

    async def _get_asyncio(self) -> Any:
        while not self.may_come.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.001)
        self.given.append(await self.pool.get_connection())
        return self.given[-1]


def test_it_comes_when_nobody_waits_and_the_client_is_closed(any_server: RealServer) -> None:
    """A connection that comes too late is closed: nobody else would, once the client has closed its pool."""
    client = redis.Redis(port=any_server.port)
    pool = Slow(client.connection_pool)
    with pytest.raises(redis.TimeoutError):
        take_connection(pool, Deadline(0.05))  # type: ignore[arg-type]
    client.close()
    pool.may_come.set()
    until(lambda: pool.released, "it is given back")
    assert pool.released == pool.given
    assert pool.given[0]._sock is None


def test_it_comes_when_nobody_waits_and_the_client_is_closed_asyncio(any_server: RealServer) -> None:
    """The same in asyncio, of a taker that is late and of one that is cancelled."""

    async def main() -> None:
        for cancelled in (False, True):
            client = redis.asyncio.Redis(port=any_server.port)
            pool = Slow(client.connection_pool)
            taking = asyncio.ensure_future(
                take_connection_asyncio(pool, Deadline(5 if cancelled else 0.05))  # type: ignore[arg-type]
            )
            await asyncio.sleep(0.01)
            if cancelled:
                taking.cancel()
            with pytest.raises(asyncio.CancelledError if cancelled else redis.TimeoutError):
                await taking
            await client.aclose()
            pool.may_come.set()
            while not pool.released:
                await asyncio.sleep(0.001)
            assert pool.released == pool.given
            assert not pool.given[0].is_connected

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
