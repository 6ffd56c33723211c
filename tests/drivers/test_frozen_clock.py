"""Where a test stops the clock, waiting ends all the same: its clock was taken at import."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from freezegun import freeze_time

import redis_counters
from redis_counters import Unavailable
from redis_counters.drivers import clock
from tests.faces.either import FACES, Either, truth
from tests.servers import RealServer

Stopped = Callable[[], AbstractContextManager[Any]]


@contextmanager
def patched() -> Iterator[None]:
    """``time.monotonic`` patched by hand; event loops are let alone, they would not turn."""
    loop_class = type(asyncio.get_running_loop())
    real = mock.patch.object(loop_class, "time", new=staticmethod(clock.monotonic))
    with mock.patch("time.monotonic", return_value=5.0), real:
        yield


STOPPED: dict[str, Stopped] = {
    "freezegun": lambda: freeze_time("2012-01-14", real_asyncio=True),
    "patched": patched,
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("stopped", STOPPED)
@pytest.mark.parametrize("face", FACES)
def test_flush_and_close_end_while_redis_is_away(private_server: RealServer, face: str, stopped: str) -> None:
    """The time-outs of flush and close are over though the clock stands still; what waits is told."""
    private_server.kill()

    async def main() -> None:
        counters = Either.url(face, private_server.url, flush_interval=0.01)
        with STOPPED[stopped]():
            counters.incr("x", 3)
            with pytest.raises(Unavailable) as caught:
                await counters.flush(0.5)
            assert caught.value.pending == {"x": 3}
            with pytest.raises(Unavailable) as caught:
                await counters.close(0.5)
            assert caught.value.pending == {"x": 3}

    asyncio.run(main())


@pytest.mark.timeout(60)
@pytest.mark.parametrize("stopped", STOPPED)
@pytest.mark.parametrize("face", FACES)
def test_all_is_as_usual(any_server: RealServer, face: str, stopped: str) -> None:
    """Counted, flushed, read and closed while the clock stands still, and read again when it goes on."""

    async def main() -> None:
        with STOPPED[stopped]():
            counters = Either.url(face, any_server.url, flush_interval=0.01, max_age=0.05)
            counters.incr("x", 3)
            await counters.flush(5)
            assert await counters.get("x") == 3
            async with Either.url(face, any_server.url) as other:
                other.incr("x", 4)
            await asyncio.sleep(0.1)
            assert await counters.get("x") == 7  # what was cached has become too old
        counters.incr("x")
        counters.counter("x", expire_at=time.time() + 1000)  # the date is that of today
        await counters.close()

    asyncio.run(main())
    assert truth(any_server, ["x"]) == {b"x": 8}


@pytest.mark.every(2, "seconds each")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("face", FACES)
def test_a_breaker_that_opened_meanwhile_closes(private_server: RealServer, face: str) -> None:
    """Reads that failed again and again while the clock stood still try again after a moment, then and later."""
    private_server.kill()

    async def main() -> None:
        async with Either.url(face, private_server.url) as counters:
            with freeze_time("2050-01-14", real_asyncio=True):
                for _ in range(6):
                    with pytest.raises(Unavailable):
                        await counters.get("x")
            private_server.restart()
            await asyncio.sleep(2.1)
            assert await counters.get("x") == 0

    asyncio.run(main())


def test_nobody_takes_the_clock_of_the_module_time() -> None:
    """Nothing but the command and its demos, which no test of a user runs, asks ``time.monotonic`` how long to wait."""
    folder = Path(redis_counters.__file__).parent
    sources = [
        path for path in folder.rglob("*.py") if not {"cli", "demo"} & set(path.parts) and path.name != "clock.py"
    ]
    assert len(sources) > 50
    assert not [path for path in sources if re.search(r"time\.(monotonic|perf_counter)", path.read_text())]


def test_imported_while_time_stands_still() -> None:
    """A module that is imported by a test with a stopped clock has the real one."""
    with freeze_time("2012-01-14"):
        taken = clock._real()
        before = taken()
        time.sleep(0.01)
        assert before < taken() < before + 60
