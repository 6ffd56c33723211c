"""The client is closed while threads use it: each increment is in Redis, or its call raised."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
import redis

from redis_counters import Counters, Unavailable, UsageError
from redis_counters.drivers.tasks import delivery as delivery_tasks
from redis_counters.drivers.threads import delivery as delivery_threads
from tests.faces.either import FACES, Either, client_of, closed, truth
from tests.servers import RealServer


@pytest.mark.parametrize("interval", [0.001, 60.0])
def test_threads_do_everything_while_the_client_is_closed(any_server: RealServer, interval: float) -> None:
    """Threads count, read and flush, then three close at once: what was counted is there, or its call raised."""
    for _ in range(4):
        any_server.client().flushall()
        with redis.Redis(port=any_server.port) as client:
            counters = Counters(client, flush_interval=interval, shards=2)
            counted = [0] * 12
            errors: list[BaseException] = []

            def work(
                number: int, counters: Counters = counters, counted: list[int] = counted, errors: list[Any] = errors
            ) -> None:
                handle = counters.counter("x")
                try:
                    while True:
                        if number % 3 == 0:
                            handle.incr()
                        elif number % 3 == 1:
                            counters.incr("x")
                        else:
                            counters.add("x", 1)
                        counted[number] += 1
                        if counted[number] % 64 == 0:
                            counters.get("x")
                        if counted[number] % 1024 == 0:
                            counters.flush()
                except UsageError:
                    pass
                except BaseException as error:
                    errors.append(error)

            threads = [threading.Thread(target=work, args=(n,)) for n in range(len(counted))]
            for thread in threads:
                thread.start()
            while min(counted) < 100:
                time.sleep(0.001)
            lost: list[int] = []

            def close(counters: Counters = counters, lost: list[int] = lost) -> None:
                try:
                    counters.close(30)
                except Unavailable as error:
                    lost.append(error.pending.get("x", 0))

            closing = [threading.Thread(target=close) for _ in range(3)]
            for thread in closing:
                thread.start()
            for thread in (*closing, *threads):
                thread.join(60)
            assert not any(thread.is_alive() for thread in (*closing, *threads))
            assert errors == []
            assert lost == []
        assert truth(any_server, ["x"]) == {b"x": sum(counted)}


@pytest.mark.parametrize("face", FACES)
def test_who_had_looked_before_close_began(any_server: RealServer, face: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread finds the client open, is held up, and adds its increment when close() has all the rest: it counts.

    So do those of others, who find the buffer in use for that moment.
    """
    times = 3
    for delivery in (delivery_threads, delivery_tasks):  # the thread is held up longer than the background takes to end
        monkeypatch.setattr(delivery, "LATE_LOOK_S", 0.05)

    async def main() -> None:
        for _ in range(times):
            client = client_of(face, any_server)
            counters = Either(face, client, flush_interval=60)  # nothing else sends it in time
            runner = counters.counters._runner
            request = counters.counters._request_flush_or_count

            def held_up(name: Any, amount: int, runner: Any = runner, request: Any = request) -> Any:
                counted = request(name, amount)
                while not (runner.state.refusing and runner.core.writer.closed):
                    time.sleep(0.0001)
                time.sleep(0.04)
                return counted

            counters.incr("warm")
            await counters.flush()
            handle = counters.counter("x")
            handle._request_flush_or_count = held_up

            def late(handle: Any = handle) -> None:
                for _ in range(5):
                    handle._ones.append(b"x") if handle._ones else handle.incr()

            thread = threading.Thread(target=late)
            thread.start()
            try:
                await counters.background("close", 20.0)
            finally:
                thread.join(20)
            await closed(client)

    asyncio.run(main())
    assert truth(any_server, ["x"]) == {b"x": 5 * times}
