"""With `max_pending` names waiting for Redis, further names are refused, or wait; those that wait go on counting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis
from redis.asyncio.retry import Retry as AsyncioRetry
from redis.backoff import AbstractBackoff
from redis.retry import Retry

from redis_counters import BufferFull, Counters, Unavailable, UsageError
from tests.faces.either import FACES, Either, client_of, closed, once, truth
from tests.servers import RealServer
from tests.waiting import until, until_async


@pytest.mark.parametrize("face", FACES)
def test_a_full_buffer_refuses_new_names_alone(private_server: RealServer, face: str) -> None:
    """With max_pending names waiting, a further name is refused and not counted; those that wait go on counting."""
    private_server.kill()

    async def main() -> None:
        client = client_of(face, private_server, retry=once(face))
        try:
            async with Either(face, client, max_pending=10, flush_interval=0.01) as counters:
                for i in range(10):
                    counters.incr(f"n{i}")
                await until_async(lambda: _is_full(counters), "the buffer is found full")
                assert counters.stats().pending == 10
                handle = counters.counter("late handle")
                calls: list[Callable[[], None]] = [
                    lambda: counters.incr("late"),
                    lambda: counters.incr("late", 5),
                    lambda: counters.add("late", -5),
                    lambda: counters.decr(b"\xff"),
                    handle.incr,
                    lambda: handle.decr(2),
                ]
                for call in calls * 2:
                    with pytest.raises(BufferFull, match="max_pending"):
                        call()
                    counters.incr("n3")
                    counters.counter("n4").incr(2)
                    counters.decr(b"n5", 3)
                assert await _pending(counters) == {"n3": 13, "n4": 25, "n5": -35, **dict.fromkeys(_ones(), 1)}
                private_server.restart()
                await counters.flush(20)
                for call in calls:
                    call()
                await counters.flush(20)
                assert counters.stats().pending == 0
        finally:
            await closed(client)

    asyncio.run(main())
    expected = {b"late": 1, b"\xff": -1, b"late handle": -1, b"n3": 13, b"n4": 25, b"n5": -35}
    assert truth(private_server, [*expected, "n0"]) == {**expected, b"n0": 1}


@pytest.mark.parametrize("face", FACES)
def test_a_patient_client_does_not_lift_the_limit(private_server: RealServer, face: str) -> None:
    """While a client tries to connect, by default for many seconds, max_pending holds all the same."""
    private_server.kill()

    async def main() -> None:
        trying = Trying()
        retry: Any = Retry if face == "blocking" else AsyncioRetry
        client = client_of(face, private_server, retry=retry(trying, 10_000))
        try:
            counters = Either(face, client, max_pending=10, flush_interval=0.01)
            counters.incr("n0")
            await until_async(lambda: trying.times, "a connection is being tried")
            for i in range(10):
                counters.incr(f"n{i}")
            await until_async(lambda: _is_full(counters), "the buffer is found full")
            for i in range(25):
                await asyncio.sleep(0)
                with pytest.raises(BufferFull):
                    counters.incr(f"late{i}")
            assert counters.stats().failures == 0  # it is the same connection that is still being tried
            with pytest.raises(Unavailable):
                await counters.close(0.1)
        finally:
            trying.over = True
            await closed(client)

    asyncio.run(main())


class Trying(AbstractBackoff):
    """Further attempts to connect, until it is over."""

    def __init__(self) -> None:
        self.times = 0
        self.over = False

    def __deepcopy__(self, _memo: object) -> Trying:
        return self  # redis-py copies it for each connection

    def compute(self, failures: int) -> float:
        if self.over:
            raise redis.ConnectionError("the test is over")
        self.times = failures
        return 0.05


def _is_full(counters: Either) -> bool:
    """Seen now and then, about every flush_interval: further names are refused from then on."""
    core = counters.counters._core
    return bool(core.writer.full and not core.buffer)


def _ones() -> list[str | bytes]:
    return [f"n{i}" for i in (0, 1, 2, 6, 7, 8, 9)]


async def _pending(counters: Either) -> dict[str | bytes, int]:
    with pytest.raises(Unavailable) as caught:
        await counters.flush(0.05)
    return caught.value.pending


def test_a_full_buffer_may_block(private_server: RealServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """With on_full="block" the caller of a new name waits until there is room; nothing is refused, nothing lost."""
    private_server.kill()
    with (
        client_of("blocking", private_server, retry=once("blocking")) as client,
        Counters(client, max_pending=5, on_full="block", flush_interval=0.01) as counters,
    ):
        for i in range(5):
            counters.incr(f"n{i}")
        until(lambda: not counters._core.buffer and counters._core.writer.full, "the buffer is found full")
        assert counters.stats().pending == 5
        arrived: list[str] = []
        waiting: set[threading.Thread] = set()
        wait_for_room = counters._runner.waiting.for_room

        def seen_to_wait(has_room: Callable[[], bool]) -> None:
            waiting.add(threading.current_thread())
            wait_for_room(has_room)

        monkeypatch.setattr(counters._runner.waiting, "for_room", seen_to_wait)

        def late(name: str) -> None:
            counters.incr(name)
            arrived.append(name)

        threads = [threading.Thread(target=late, args=(f"late{i}",)) for i in range(20)]
        for thread in threads:
            thread.start()
        until(lambda: waiting == set(threads), "all of them wait")
        before = list(arrived)
        counters.incr("n0")  # known: no need to wait
        private_server.restart()
        for thread in threads:
            thread.join(20)
        assert before == []
        assert len(arrived) == 20
        counters.flush(20)
    late_ones = {b"late%d" % i: 1 for i in range(20)}
    assert truth(private_server, [*late_ones, "n0"]) == {**late_ones, b"n0": 2}


def test_blocking_is_not_offered_where_it_cannot_be(any_server: RealServer) -> None:
    """Counting is a plain call in the asyncio face and cannot wait: on_full="block" is refused there."""

    async def main() -> None:
        client = client_of("asyncio", any_server)
        try:
            with pytest.raises(UsageError, match="on_full"):
                Either("asyncio", client, on_full="block")
        finally:
            await closed(client)

    asyncio.run(main())
