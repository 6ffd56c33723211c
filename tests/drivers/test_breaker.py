"""While Redis fails again and again, reads fail at once and ask nothing; the first success ends that."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

import pytest

from redis_counters import Counters, Event, EventKind, Unavailable
from redis_counters.drivers.breaker import FAILURES, Breaker
from redis_counters.protocol.core import Core
from redis_counters.testing import LossyLink
from tests.faces.either import FACES, Either, client_of, closed, commandstats, once, reset_stats, truth
from tests.servers import RealServer
from tests.waiting import PATIENCE


async def until_opened(counters: Either) -> int:
    """Read until the breaker opens; how many reads that took."""
    for number in range(50):
        with pytest.raises(Unavailable) as caught:
            await counters.get("x", max_age=0)
        if "is not asked" in str(caught.value):
            return number
    raise AssertionError("the breaker never opened")


def test_only_failures_in_a_row_open_it() -> None:
    """After a success they are counted from the beginning."""
    core = SimpleNamespace(report=lambda *_: None)
    breaker = Breaker(cast(Core, core))
    for _ in range(2):
        opened = [breaker.failed(Unavailable("away")) for _ in range(FAILURES - 1)]
        assert not any(opened)
        breaker.succeeded()
    opened = [breaker.failed(Unavailable("away")) for _ in range(FAILURES)]
    assert opened == [False] * (FAILURES - 1) + [True]


@pytest.mark.parametrize("face", FACES)
def test_reads_fail_at_once_and_recover(private_server: RealServer, face: str) -> None:
    """Redis is down: after a few failures reads ask nothing; known values stay; when it is back, so are reads."""
    events: list[Event] = []

    async def main() -> None:
        client = client_of(face, private_server, retry=once(face))
        async with Either(face, client, observer=events.append, flush_interval=0.01) as counters:
            counters.incr("x", 3)
            await counters.flush()
            assert await counters.get("x") == 3
            private_server.kill()
            assert await until_opened(counters) <= FAILURES
            counters.incr("x")  # never waits, never fails
            assert await counters.get("x", max_age=float("inf")) == 4
            with pytest.raises(Unavailable, match="is not asked for 2 s"):
                await counters.get("y")
            private_server.restart()
            await counters.flush(20)  # flushing does not stop, and closes the breaker
            assert await counters.get("x", max_age=0) == 4
        await closed(client)

    asyncio.run(main())
    kinds = [event.kind for event in events]
    assert kinds.count(EventKind.BREAKER_OPENED) == kinds.count(EventKind.BREAKER_CLOSED) == 1
    assert kinds.index(EventKind.BREAKER_OPENED) < kinds.index(EventKind.BREAKER_CLOSED)
    assert truth(private_server, ["x"]) == {b"x": 4}


@pytest.mark.every(2, "seconds each")
@pytest.mark.parametrize("face", FACES)
def test_a_reader_alone_recovers(private_server: RealServer, face: str) -> None:
    """A process that only reads: after the rest one read tries, and if it succeeds all do."""

    async def main() -> None:
        client = client_of(face, private_server, retry=once(face))
        async with Either(face, client) as counters:
            private_server.kill()
            await until_opened(counters)
            private_server.restart()
            for _ in range(400):
                with suppress(Unavailable):
                    assert await counters.get("x", max_age=0) == 0
                    break
                await asyncio.sleep(0.02)
            else:
                raise AssertionError("no read ever tried")
            for _ in range(20):
                assert await counters.get("x", max_age=0) == 0
        await closed(client)

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_an_open_breaker_sends_nothing(any_server: RealServer, face: str) -> None:
    """A thousand reads of an open breaker reach Redis not once."""

    async def main(link: LossyLink) -> None:
        host, port = urlsplit(link.url).hostname, urlsplit(link.url).port
        client: Any = client_of(face, any_server, host=host, port=port, retry=once(face))
        async with Either(face, client) as counters:
            link.cut_before(every=1)
            await until_opened(counters)
            link.heal()
            reset_stats(any_server)
            refused = 0
            for number in range(1000):
                try:
                    await counters.get(f"n{number}", max_age=0)
                except Unavailable:
                    refused += 1
                else:
                    break
            assert refused > 100
            if refused == 1000:
                assert "hgetall" not in commandstats(any_server)
        await closed(client)

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))


@pytest.mark.parametrize("face", FACES)
def test_what_is_refused_does_not_open_it(any_server: RealServer, face: str) -> None:
    """An answer that says no is an answer: a counter of a wrong type spoils no other."""

    async def main() -> None:
        any_server.client().set("{rc:3}:c:0:x", "text")
        async with Either.on(face, any_server) as counters:
            for _ in range(3 * FAILURES):
                with pytest.raises(Exception, match="WRONGTYPE"):
                    await counters.get("x", max_age=0)
            assert await counters.get("y", max_age=0) == 0

    asyncio.run(main())


def test_a_flush_that_is_over_closes_it(
    any_server: RealServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while its round goes on: who has heard that all is in Redis may read it."""
    over = threading.Event()
    with Counters.from_url(any_server.url, flush_interval=60, journal=tmp_path) as counters:
        counters.incr("x")
        runner: Any = counters._runner
        monkeypatch.setattr(runner.recording, "tidy", lambda: over.wait(PATIENCE))
        for _ in range(FAILURES):
            runner.state.breaker.failed(Unavailable("away"))
        with pytest.raises(Unavailable, match="is not asked for"):
            counters.get("y", max_age=0)
        try:
            counters.flush()
            assert counters.get("x", max_age=0) == 1
        finally:
            over.set()
