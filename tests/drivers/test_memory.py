"""``memory://``: a server in this process for users' own tests, with the same scripts, in both faces."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from typing import Any

import pytest

import redis_counters
import redis_counters.asyncio
from redis_counters import Overflow, UsageError
from redis_counters.drivers import urls
from tests.faces.either import FACES, Either, count, tally, workload
from tests.lifecycle.children import FORKS, ended_well, forked


@pytest.mark.parametrize("face", FACES)
def test_it_counts(face: str) -> None:
    """The workload of the real servers comes to the same sums, at once, after a flush, and for another client."""

    async def main() -> None:
        calls = workload(7)
        sums = tally(calls)
        async with Either.url(face, f"memory://counts-{face}") as counters:
            count(counters, calls)
            assert await counters.get_many(sums) == sums
            await counters.flush()
            assert await counters.get_many(sums, max_age=0) == sums
            async with Either.url(face, f"memory://counts-{face}") as other:
                assert await other.get_many(sums) == sums
                other.incr("n1")
            assert await counters.get("n1", max_age=0) == sums[b"n1"] + 1
        async with Either.url(face, f"memory://counts-{face}") as again:
            assert await again.get("n1") == sums[b"n1"] + 1
            assert (await again.inspect("n1")).actors == {}

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_without_a_name_each_is_its_own(face: str) -> None:
    """`memory://` twice is two servers; a name makes it one."""

    async def main() -> None:
        async with Either.url(face, "memory://") as one, Either.url(face, "memory://") as two:
            one.incr("x")
            await one.flush()
            assert await two.get("x", max_age=0) == 0
            assert await one.get("x", max_age=0) == 1
            with pytest.raises(Overflow):
                one.incr("x", 2**63 - 1)

    asyncio.run(main())


async def _awaited(done: Awaitable[Any]) -> None:
    await done


def test_in_one_loop_after_another() -> None:
    """Whatever the client has written before, also while another client uses the same data."""
    counters = redis_counters.asyncio.Counters.from_url("memory://loops")
    with redis_counters.Counters.from_url("memory://loops") as other:

        async def visit() -> None:
            counters.incr("visits")
            await counters.flush()
            assert await counters.incr_once("once", "key") == (counters.stats().flushes == 1)
            other.incr("visits")
            other.flush()

        for _ in range(3):
            asyncio.run(visit())
        counters.incr("visits")  # outside of any loop
        asyncio.run(counters.close())
        assert other.get_many(["visits", "once"], max_age=0) == {"visits": 7, "once": 1}


@pytest.mark.parametrize("face", FACES)
class TestForks:
    """The child of a fork has its own copy of the server, with all that was flushed, and no lock of it is held."""

    pytestmark = FORKS

    def test_counting_in_a_child(self, face: str) -> None:
        async def child() -> None:
            async with Either.url(face, f"memory://fork-{face}") as other:
                assert await other.get("before") == 1
                other.incr("before")
                await other.flush()
                assert await other.get("before", max_age=0) == 2

        def work() -> None:
            asyncio.run(child())

        async def main() -> None:
            async with Either.url(face, f"memory://fork-{face}") as counters:
                counters.incr("before")
                await counters.flush()
                ended_well(forked(work))
                assert await counters.get("before", max_age=0) == 1

        asyncio.run(main())

    def test_the_client_itself_in_a_child(self, face: str) -> None:
        """Forked while a thread has the lock of the server, which is nobody's in the child."""
        name = f"memory://fork-itself-{face}"
        kind: Any = redis_counters.Counters if face == "blocking" else redis_counters.asyncio.Counters
        counters = kind.from_url(name)

        async def use(expected: int) -> None:
            counters.incr("x")
            for call, result in ((counters.flush, None), (lambda: counters.get("x", max_age=0), expected)):
                found = call()
                assert (await found if inspect.isawaitable(found) else found) == result

        asyncio.run(use(1))
        server = urls._memories[name.removeprefix("memory://")]
        with server.lock:
            child = forked(lambda: asyncio.run(use(2)))
        ended_well(child)
        asyncio.run(use(2))
        done = counters.close()
        if inspect.isawaitable(done):
            asyncio.run(_awaited(done))


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("url", ["", "localhost", "http://x", "redis:/x", "redis://h:port/0", "REDIS//"])
def test_urls_that_cannot_be(face: str, url: str) -> None:
    """A UsageError when the client is made, without the URL's password in it."""
    with pytest.raises(UsageError):
        Either.url(face, url)
    with pytest.raises(UsageError) as caught:
        Either.url(face, "redis://user:s3cret@host:port/0")
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in repr(caught.value.__cause__)
