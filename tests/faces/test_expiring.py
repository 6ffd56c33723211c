"""Counters that expire: no shard is ever without its time, all go together, and nothing late revives them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from redis_counters import UsageError
from tests.faces.either import FACES, Either, truth
from tests.servers import RealServer

HOUR = 3600.0


def shards_of(server: RealServer, name: str) -> dict[bytes, int]:
    """Return what time is left, in milliseconds, of every shard of the counter; -1: it never expires."""
    client: Any = server.client()
    return {key: client.pttl(key) for key in client.scan_iter(match="*:c:*") if key.endswith(b":" + name.encode())}


async def called(call: Callable[[], Any]) -> None:
    result = call()
    if asyncio.iscoroutine(result):
        await result


async def until_gone(server: RealServer, name: str) -> None:
    for _ in range(500):
        if not shards_of(server, name):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"still there: {shards_of(server, name)}")


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("shards", [1, 4])
def test_every_shard_has_its_time_from_the_beginning(any_server: RealServer, face: str, shards: int) -> None:
    """Whichever process makes which shard; seconds and datetimes are the same."""

    async def main() -> None:
        at = time.time() + HOUR
        moments: list[Any] = [at, int(at) + 1, datetime.fromtimestamp(at, timezone.utc)]
        for moment in moments * 3:
            async with Either.on(face, any_server, shards=shards) as counters:
                handle = counters.counter("x", expire_at=moment)
                handle.incr()
                handle.decr(2)
                await counters.flush()
                left = shards_of(any_server, "x")
                assert left
                assert all(HOUR - 60 < each / 1000 <= HOUR + 2 for each in left.values()), left
        assert truth(any_server, ["x"]) == {b"x": -9}

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_it_counts_until_its_time_and_no_longer(any_server: RealServer, face: str) -> None:
    """What is counted or flushed later does not count, and makes no key; with a later time it begins at 0."""

    async def main() -> None:
        async with Either.on(face, any_server, flush_interval=60, shards=4) as counters:
            handle = counters.counter("x", expire_at=time.time() + 1.0)
            handle.incr(5)
            await counters.flush()
            assert await counters.get("x", max_age=0) == 5
            handle.incr(7)  # flushed too late
            await until_gone(any_server, "x")
            handle.incr(9)  # counted too late
            await counters.flush()
            assert shards_of(any_server, "x") == {}
            assert await counters.get("x", max_age=0) == 0
            counters.counter("x", expire_at=time.time() + HOUR).incr(3)
            await counters.flush()
            assert await counters.get("x", max_age=0) == 3
            assert all(each > 0 for each in shards_of(any_server, "x").values())
            handle.incr()
        assert truth(any_server, ["x"]) == {b"x": 4}

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_closing_revives_nothing(any_server: RealServer, face: str) -> None:
    """Folding at the end finds nothing of what has expired."""

    async def main() -> None:
        async with Either.on(face, any_server, flush_interval=60) as counters:
            handle = counters.counter("x", expire_at=time.time() + 0.5)
            handle.incr(5)
            counters.incr("y")
            await counters.flush()
            await until_gone(any_server, "x")
            handle.incr()
        assert shards_of(any_server, "x") == {}
        assert truth(any_server, ["x", "y"]) == {b"x": 0, b"y": 1}

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_of_two_times_the_later_holds(any_server: RealServer, face: str) -> None:
    async def main() -> None:
        async with Either.on(face, any_server) as one, Either.on(face, any_server) as two:
            for counters, hours in ((one, 2), (two, 1), (one, 1), (two, 3), (one, 2)):
                counters.counter("x", expire_at=time.time() + hours * HOUR).incr()
                await counters.flush()
            assert all(3 * HOUR - 60 < each / 1000 <= 3 * HOUR for each in shards_of(any_server, "x").values())

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_who_knows_an_earlier_time_counts_until_the_later(any_server: RealServer, face: str) -> None:
    """Nothing of it is lost, and all read the same."""

    async def main() -> None:
        async with Either.on(face, any_server) as one, Either.on(face, any_server) as two:
            at = time.time() + 0.5
            early = one.counter("x", expire_at=at)
            early.incr(5)
            await one.flush()
            two.counter("x", expire_at=at + HOUR).incr(7)
            await two.flush()
            while time.time() < at + 0.1:
                await asyncio.sleep(0.02)
            early.incr(100)
            await one.flush()
            assert [await each.get("x", max_age=0) for each in (one, two)] == [112, 112]
        assert truth(any_server, ["x"]) == {b"x": 112}

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_a_moment_that_makes_no_sense_is_refused(any_server: RealServer, face: str) -> None:
    """At the call, by the name of the argument; nothing has changed."""

    async def main() -> None:
        async with Either.on(face, any_server) as counters:
            for wrong_type in ("tomorrow", True, b"1", timedelta(hours=1), [1]):
                with pytest.raises(TypeError, match="expire_at"):
                    counters.counter("x", expire_at=wrong_type)
            now = time.time()
            naive = datetime.now() + timedelta(hours=1)  # noqa: DTZ005 - that is the fault
            past = datetime.now(timezone.utc) - timedelta(seconds=1)
            for wrong in (0, -1, now - 1, past, naive, float("nan"), float("inf"), -float("inf"), now * 1000, 10**400):
                with pytest.raises(UsageError, match="expire_at"):
                    counters.counter("x", expire_at=wrong)
            counters.incr("x")
            await counters.flush()
            assert list(shards_of(any_server, "x").values()) == [-1]

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_keyed_calls_do_not_know_it(any_server: RealServer, face: str) -> None:
    """They would make a counter without a time: refused, before anything is sent."""

    async def main() -> None:
        async with Either.on(face, any_server) as counters:
            counters.counter("x", expire_at=time.time() + HOUR)
            for call in (
                lambda: counters.counters.incr_once("x", "key"),
                lambda: counters.counters.likes("x").like("user"),
                lambda: counters.counters.seed("x", 5, "token"),
            ):
                with pytest.raises(UsageError, match="'x' has expire_at"):
                    await called(call)
        assert shards_of(any_server, "x") == {}

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_times_that_are_over_are_forgotten(any_server: RealServer, face: str) -> None:
    """But not as long as there is a handle, which might count."""

    async def main() -> None:
        async with Either.on(face, any_server, flush_interval=60) as counters:
            known = counters.counters._core.expiries
            counters.incr("y")
            await counters.flush()
            soon = time.time() + 0.3
            kept = counters.counter("kept", expire_at=soon)
            for number in range(3000):
                counters.counter(f"n{number}", expire_at=soon)
            while time.time() <= soon:
                await asyncio.sleep(0.02)
            for number in range(3000):
                counters.counter(f"later{number}", expire_at=time.time() + HOUR)
            assert b"kept" in known.known
            assert b"n1" not in known.known
            kept.incr()
            await counters.flush()
            assert shards_of(any_server, "kept") == {}

    asyncio.run(main())


@pytest.mark.parametrize("mode", ["interval", "always"])
@pytest.mark.parametrize("face", FACES)
def test_a_journal_knows_it_too(any_server: RealServer, tmp_path: Path, face: str, mode: str) -> None:
    """What a process that was killed had counted comes with its time, or, when that is over, not at all."""
    from tests.journal.processes import program, run

    text = program(
        """
        import time
        # Where nobody answers, all stays in the journal.
        counters = counters_of("redis://127.0.0.1:1" if mode == "interval" else url)
        counters.counter("long", expire_at=time.time() + 3600).incr(5)
        counters.counter("short", expire_at=time.time() + 0.5).incr(5)
        counters.incr("ever", 5)
        if mode == "interval":
            await recorded(counters)
        killed()
        """
    )
    run(text, any_server.url, tmp_path, face, mode)

    async def main() -> None:
        await asyncio.sleep(0.6)
        async with Either.url(face, any_server.url, journal=tmp_path, journal_mode=mode) as counters:
            await counters.flush()
            assert await counters.get("ever", max_age=0) == 5
            assert await counters.get("long", max_age=0) == 5
        assert shards_of(any_server, "short") == {}
        assert all(each > 0 for each in shards_of(any_server, "long").values())
        assert list(shards_of(any_server, "ever").values()) == [-1]

    asyncio.run(main())
