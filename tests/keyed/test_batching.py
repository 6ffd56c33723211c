"""Calls made at the same time share scripts; nobody waits for nothing, and nobody's end is another's."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis

from redis_counters import Counters, Unavailable, UsageError
from redis_counters.asyncio import Counters as AsyncioCounters
from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.tasks import keyed as keyed_tasks
from redis_counters.drivers.threads import keyed as keyed_threads
from redis_counters.drivers.threads.keyed import KeyedThreads
from redis_counters.protocol.keyed.calls import Call, Like
from redis_counters.testing import LossyLink
from tests.faces.either import FACES, Either, commandstats, reset_stats, truth
from tests.keyed.support import done
from tests.servers import RealServer
from tests.waiting import PATIENCE

both = pytest.mark.parametrize("face", FACES)
CALLERS, EACH = 200, 10


def scripts(server: RealServer) -> int:
    return commandstats(server).get("evalsha", 0)


def in_threads(work: Callable[[int], object], count: int = CALLERS) -> None:
    """The work is done by so many threads that begin at the same time."""
    begin = threading.Barrier(count)

    def one(number: int) -> None:
        begin.wait()
        work(number)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_threads_share_scripts(any_server: RealServer) -> None:
    """200 threads with 10 keys each: fewer scripts than a fifth of the calls, and each key counts once."""
    with redis.Redis(port=any_server.port) as client, Counters(client, flush_interval=60) as counters:
        counters.incr_once("c", "warm")
        reset_stats(any_server)
        counted: list[bool] = []

        def work(number: int) -> None:
            counted.extend([counters.incr_once("c", f"{number} {i}") for i in range(EACH)])

        in_threads(work)
        assert counted == [True] * CALLERS * EACH
        assert scripts(any_server) < CALLERS * EACH / 5
        assert counters.get("c") == CALLERS * EACH + 1


def test_tasks_share_scripts(any_server: RealServer) -> None:
    """200 tasks with 10 keys each, in step: one script a step, and one more for what comes too late."""

    async def main() -> None:
        async with Either.on("asyncio", any_server, flush_interval=60) as either:
            await either.counters.incr_once("c", "warm")
            reset_stats(any_server)

            async def work(number: int) -> list[bool]:
                return [await either.counters.incr_once("c", f"{number} {i}") for i in range(EACH)]

            counted = await asyncio.gather(*(work(number) for number in range(CALLERS)))
            assert counted == [[True] * EACH] * CALLERS
            assert scripts(any_server) <= 2 * EACH
            assert await either.get("c") == CALLERS * EACH + 1

    asyncio.run(main())


@both
def test_a_single_call_is_a_single_script(any_server: RealServer, face: str) -> None:
    """One after the other, each is sent by itself: 20 calls, 20 scripts."""

    async def main() -> None:
        async with Either.on(face, any_server, flush_interval=60) as either:
            await done(either.counters.incr_once("c", "warm"))
            reset_stats(any_server)
            for i in range(20):
                await done(either.counters.incr_once("c", f"{i}"))
            assert scripts(any_server) == 20

    asyncio.run(main())


@both
def test_a_batch_of_every_sort(any_server: RealServer, face: str) -> None:
    """Keys with several ttls, likes, looks and seeds of many counters, at once: each gets its own answer."""

    async def main() -> None:
        async with Either.on(face, any_server, shards=2) as either:
            counters = either.counters
            await done(counters.likes("l 0").like("first"))

            async def background(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
                if face == "asyncio":
                    return await call(*arguments, **options)
                return await asyncio.to_thread(call, *arguments, **options)

            calls = []
            for i in range(60):
                calls.append(background(counters.incr_once, f"c {i % 7}", f"{i}", i, ttl=60 + i % 3))
                calls.append(background(counters.likes(f"l {i % 5}").like, i % 20))
                calls.append(background(counters.likes("l 0").has, "first"))
                calls.append(background(counters.seed, f"s {i % 3}", i, "t"))
            answers = await asyncio.gather(*calls)
            assert answers[0::4] == [True] * 60
            assert sum(answers[1::4]) == 20
            assert answers[2::4] == [True] * 60
            assert await either.get_many([f"c {i}" for i in range(7)]) == {
                f"c {i}": sum(range(i, 60, 7)) for i in range(7)
            }
            assert await either.get_many([f"s {i}" for i in range(3)]) == {"s 0": 57, "s 1": 58, "s 2": 59}
            assert await either.get("l 0") == 5
            assert await either.get("l 1") == 4

    asyncio.run(main())


# --- who is gone ---------------------------------------------------------------------------------------------------


def test_a_cancelled_caller_cancels_nobody_else(any_server: RealServer) -> None:
    """Callers are cancelled before and while their script is on its way; all others get their answer."""

    async def main(link: LossyLink) -> None:
        async with Either.url("asyncio", link.url) as either:
            await either.counters.incr_once("c", "warm")
            link.delay(0.02)
            counted = cancelled = 0
            for turn in range(10):
                tasks = [asyncio.ensure_future(either.counters.incr_once("c", f"{turn} {i}")) for i in range(50)]
                for _ in range(turn):
                    await asyncio.sleep(0)
                if turn % 2:
                    await asyncio.sleep(0.005)
                for task in tasks[::3]:
                    task.cancel()
                results = await asyncio.gather(*tasks, return_exceptions=True)
                counted += results.count(True)
                cancelled += sum(isinstance(result, asyncio.CancelledError) for result in results)
                assert [result for i, result in enumerate(results) if i % 3] == [True] * 33
            assert cancelled == 170
            assert counted == 330
            link.heal()
            again = await asyncio.gather(
                *(either.counters.incr_once("c", f"{t} {i}") for t in range(10) for i in range(50))
            )
            assert 0 < again.count(True) < 170  # those that had not been sent
            assert await either.get("c") == 501

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))


def test_who_is_cancelled_before_his_call_is_sent_counts_nothing(any_server: RealServer) -> None:
    """It waits for the script before it, and goes along with none."""

    async def main(link: LossyLink) -> None:
        async with Either.url("asyncio", link.url) as either:
            await either.counters.incr_once("c", "warm")
            link.delay(0.2)
            first = asyncio.ensure_future(either.counters.incr_once("c", "first"))
            await asyncio.sleep(0.05)
            second = asyncio.ensure_future(either.counters.incr_once("c", "second"))
            await asyncio.sleep(0)
            second.cancel()
            assert await first
            assert second.cancelled()
            link.heal()
            assert await either.counters.incr_once("c", "second")

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))


def test_the_sender_is_cancelled(any_server: RealServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something cancels all tasks of the loop: callers are told at once that they may repeat it, and can."""
    monkeypatch.setattr(keyed_tasks, "Deadline", lambda: Deadline(2 * PATIENCE))

    async def main(link: LossyLink) -> None:
        async with Either.url("asyncio", link.url) as either:
            await either.counters.incr_once("c", "warm")
            link.delay(0.05)
            tasks = [asyncio.ensure_future(either.counters.incr_once("c", f"{i}")) for i in range(20)]
            await asyncio.sleep(0.01)
            late = asyncio.ensure_future(either.counters.incr_once("c", "late"))
            await asyncio.sleep(0)
            (sender,) = [task for task in asyncio.all_tasks() if task.get_name() == "redis-counters-keyed"]
            sender.cancel()
            results = await asyncio.wait_for(asyncio.gather(*tasks, late, return_exceptions=True), PATIENCE)
            assert {type(result) for result in results} == {Unavailable}
            link.heal()
            for i in range(20):
                await either.counters.incr_once("c", f"{i}")
            assert await either.counters.incr_once("c", "late") is True
            assert await either.get("c") == 22

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))


def test_one_client_in_several_loops(any_server: RealServer) -> None:
    """As a script may do that calls asyncio.run again and again."""
    client = redis.asyncio.Redis(port=any_server.port)
    counters = AsyncioCounters(client)

    async def turn(key: str) -> bool:
        counted = await counters.incr_once("c", key)
        await client.connection_pool.disconnect()
        return counted

    for i in range(3):
        assert asyncio.run(turn(f"{i}")) is True

    async def end() -> None:
        assert await counters.incr_once("c", "0") is False
        assert await counters.get("c") == 3
        await counters.close()
        await client.aclose()

    asyncio.run(end())
    assert truth(any_server, ["c"]) == {b"c": 3}


class BrokenError(Exception):
    """Raised in the middle of sending."""


class Interrupted(BaseException):
    """As KeyboardInterrupt, which pytest would take for its own."""


@pytest.mark.parametrize("error", [BrokenError, Interrupted])
def test_a_leader_that_fails_leaves_nobody_waiting(any_server: RealServer, error: type[BaseException]) -> None:
    """An interrupted leader's followers are sent by the next; after another error all of its batch are told of it."""
    with redis.Redis(port=any_server.port) as client, Counters(client) as counters:
        counters.incr_once("c", "warm")
        keyed = counters._runner.keyed_calls()
        ask, failures = keyed.runner.ask, iter([None, error("x"), error("y")])

        def failing(asks: Any, deadline: Any = None) -> Any:
            time.sleep(0.01)  # so that others gather
            failure = next(failures, None)
            if failure is not None:
                raise failure
            return ask(asks, deadline)

        keyed.runner.ask = failing  # type: ignore[method-assign] # of this one runner
        results: dict[int, object] = {}

        def work(number: int) -> None:
            try:
                results[number] = counters.incr_once("c", f"{number}")
            except BaseException as caught:
                results[number] = caught

        in_threads(work, 50)
        failed = [result for result in results.values() if isinstance(result, error)]
        keyed.runner.ask = ask  # type: ignore[method-assign] # as it was
        assert len(results) == 50
        assert all(result is True for result in results.values() if result not in failed)
        assert (len(failed) == 2) if error is Interrupted else (len(failed) >= 2)
        assert keyed.leader is None
        assert not keyed.queue
        assert counters.get("c") == 51 - len(failed)


def test_a_call_inside_of_a_call_is_sent(any_server: RealServer) -> None:
    """An observer, or a signal handler, that uses a key while this very thread sends would wait for itself."""
    with redis.Redis(port=any_server.port) as client, Counters(client) as counters:
        keyed = counters._runner.keyed_calls()
        ask = keyed.runner.ask
        nested: list[bool] = []

        def meddling(asks: Any, deadline: Any = None) -> Any:
            if not nested:
                nested.append(False)
                nested[0] = counters.incr_once("c", "inner")
            return ask(asks, deadline)

        keyed.runner.ask = meddling  # type: ignore[method-assign] # of this one runner
        assert counters.incr_once("c", "outer") is True
        assert nested == [True]
        assert counters.get("c") == 2


@both
def test_errors_reach_every_caller(any_server: RealServer, face: str) -> None:
    """While Redis is away each of them gets the error; afterwards each may repeat, and counts once."""

    async def main(link: LossyLink) -> None:
        async with Either.url(face, link.url) as either:
            link.stop()
            calls = (either.background("incr_once", "c", f"{i}") for i in range(30))
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(result) for result in results} == {Unavailable}
            link.start()
            counted = 0
            while counted < 30:
                try:
                    counted += await either.background("incr_once", "c", f"{counted}")
                except Unavailable:
                    await asyncio.sleep(0.05)
            assert await either.get("c") == 30

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))


def test_a_closed_client_takes_no_calls(any_server: RealServer) -> None:
    with redis.Redis(port=any_server.port) as client:
        counters = Counters(client)
        counters.close()
        with pytest.raises(UsageError, match="closed"):
            KeyedThreads(counters._runner).do([Like(b"l", 1, b"+")])


def test_more_callers_than_go_together(any_server: RealServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who are left over are sent after the others, in both faces."""
    monkeypatch.setattr(keyed_threads, "MAX_CALLS", 3)
    monkeypatch.setattr(keyed_tasks, "MAX_CALLS", 3)
    with redis.Redis(port=any_server.port) as client, Counters(client) as counters:
        in_threads(lambda number: [counters.incr_once("c", f"{number} {i}") for i in range(3)], 40)
        assert counters.get("c") == 120

    async def main() -> None:
        async with Either.on("asyncio", any_server) as either:
            counted = await asyncio.gather(*(either.counters.incr_once("c", f"task {i}") for i in range(40)))
            assert counted == [True] * 40
            assert await either.get("c") == 160

    asyncio.run(main())


def test_very_many_calls_are_sent_in_parts(any_server: RealServer) -> None:
    """12,000 of one caller: no script has more than 500, and all are answered."""
    with redis.Redis(port=any_server.port) as client, Counters(client) as counters:
        calls: list[Call] = [Like(b"l", i, b"+") for i in range(12_000)]
        reset_stats(any_server)
        KeyedThreads(counters._runner).do(calls)
        assert all(call.done() for call in calls)
        assert scripts(any_server) >= 24
        assert counters.likes("l").value() == 12_000
