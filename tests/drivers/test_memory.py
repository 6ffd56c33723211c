"""``memory://``: a server in this process for users' own tests, with the same scripts, in both faces."""

from __future__ import annotations

import asyncio

import pytest

from redis_counters import Overflow, UsageError
from tests.faces.either import FACES, Either, count, tally, workload

pytest.importorskip("fakeredis")


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
