"""Killed at any instant: what the next start tells is right; killed again, too."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
import redis

from redis_counters import Unavailable
from tests.faces.either import FACES, Either, in_turn, truth
from tests.journal.killing import Fate, killed_at
from tests.servers import RealServer

MODES = ("interval", "always")
POINTS = ("redis", "sql")  # instants before and after each statement, each command
CALLS = 4
AWAY = "redis://127.0.0.1:1"  # where no Redis is
MOST = 400  # points of a kind that a child may pass

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
    pytest.mark.timeout(600),
]


def taking_over(server: RealServer, face: str, directory: Path, namespace: str) -> None:
    async def main() -> None:
        async with Either.on(face, server, journal=directory, namespace=namespace, buckets=2) as counters:
            await counters.flush()

    asyncio.run(main())
    assert list(directory.iterdir()) == []


@pytest.mark.every(4, "hundreds of forks")
@pytest.mark.parametrize(("face", "mode", "points"), in_turn(MODES, POINTS))
def test_at_any_instant(any_server: RealServer, tmp_path: Path, face: str, mode: str, points: str) -> None:
    """`always`: all calls that returned, perhaps the one in progress. `interval`: at least all that was flushed."""
    kinds_of_end = set()
    for number in count():
        namespace = f"{face}-{mode}-{points}-{number}"
        directory = tmp_path / str(number)

        async def work(say: Callable[[str], None], namespace: str = namespace, directory: Path = directory) -> None:
            options = {"journal": directory, "journal_mode": mode, "namespace": namespace, "buckets": 2}
            async with Either.on(face, any_server, flush_interval=0.005, shards={"w": 2}, **options) as counters:
                for call in range(CALLS):
                    say("try")
                    counters.incr("x")
                    counters.add("w", 10)
                    say("counted")
                    if call % 2:
                        await counters.flush()
                        say("flushed")

        killed, said = killed_at(points, number, work)
        before = truth(any_server, ["x", "w"], namespace=namespace)
        directory.mkdir(exist_ok=True)
        taking_over(any_server, face, directory, namespace)
        values = truth(any_server, ["x", "w"], namespace=namespace)
        tried, counted = said.count("try"), said.count("counted")
        flushed = said[: len(said) - said[::-1].index("flushed")].count("counted") if "flushed" in said else 0
        least = counted if mode == "always" else flushed
        for name, unit in ((b"x", 1), (b"w", 10)):
            assert unit * least <= values[name] <= unit * tried, (number, name, said)
            assert before[name] <= values[name], number
        kinds_of_end.add((killed, counted))
        if not killed:
            break
        assert number < MOST
    assert number > 20
    assert values == {b"x": CALLS, b"w": 10 * CALLS}
    assert len(kinds_of_end) > 2, "it was killed at different times"


@pytest.mark.parametrize("face", FACES)
def test_with_the_buffer_full(any_server: RealServer, tmp_path: Path, face: str) -> None:
    """`always`: what is counted in a counter that is pending already is on the disk, too, where no other may come."""

    async def work(say: Callable[[str], None]) -> None:
        options = {"journal": tmp_path, "journal_mode": "always", "buckets": 2}
        counters = Either.url(face, AWAY, flush_interval=60, max_pending=1, **options)
        counters.incr("x")
        with suppress(Unavailable):
            await counters.flush(0.05)  # the buffer is found full
        assert counters.counters._core.writer.full
        for _ in range(2):
            counters.incr("x")
        os.kill(os.getpid(), signal.SIGKILL)

    killed, _said = killed_at("redis", MOST, work)
    assert killed
    taking_over(any_server, face, tmp_path, "rc")
    assert truth(any_server, ["x"]) == {b"x": 3}


@pytest.mark.slow("hundreds of forks")
@pytest.mark.parametrize(("face", "mode", "points"), in_turn(MODES, POINTS))
def test_again_during_the_take_over(any_server: RealServer, tmp_path: Path, face: str, mode: str, points: str) -> None:
    """Whoever tells a journal may be killed at any instant, too: it is exact all the same, to the end."""
    for number in count():
        namespace = f"again-{face}-{mode}-{points}-{number}"
        directory = tmp_path / str(number)
        options = {"journal": directory, "journal_mode": mode, "namespace": namespace, "buckets": 2}

        async def first(say: Callable[[str], None], options: dict[str, object] = options) -> None:
            async with Either.on(face, any_server, flush_interval=60, **options) as counters:
                counters.incr("x", 3)
                await counters.flush()
                for name in ("x", "y"):
                    counters.incr(name, 4)
                Fate("redis", 1)
                await counters.flush()

        async def second(say: Callable[[str], None], options: dict[str, object] = options) -> None:
            async with Either.on(face, any_server, flush_interval=0.005, **options) as counters:
                await counters.flush()

        killed, _said = killed_at("redis", MOST, first)  # in the middle of the second flush
        assert killed
        [left] = directory.glob("*.journal")
        again, _said = killed_at(points, number, second)
        assert again or not left.exists()
        taking_over(any_server, face, directory, namespace)
        values = truth(any_server, ["x", "y"], namespace=namespace)
        assert values == {b"x": 7, b"y": 4}, number
        if not again:
            break
        assert number < MOST
    assert number > 10


@pytest.mark.parametrize("mode", MODES)
def test_three_times_and_then_nothing_is_left_in_redis_but_bases(
    any_server: RealServer, tmp_path: Path, mode: str
) -> None:
    """Processes that count and are killed, one after the other, each also while it tells what was left: exact."""
    total = 0
    for number in (14, 18, 22, 26):

        async def work(say: Callable[[str], None]) -> None:
            options = {"journal": tmp_path, "journal_mode": mode, "buckets": 2}
            async with Either.on("blocking", any_server, flush_interval=0.005, **options) as counters:
                for call in range(40):
                    counters.incr("x")
                    say("counted")
                    if mode == "interval" or call % 3 == 2:  # so that there is enough to be killed at
                        await counters.flush()
                        say("flushed")

        killed, said = killed_at("redis", number, work)
        assert killed
        word = "counted" if mode == "always" else "flushed"
        total += said.count(word)
    taking_over(any_server, "blocking", tmp_path, "rc")
    value = truth(any_server, ["x"])[b"x"]
    assert total <= value <= total + 4  # and, of each, the call in progress
    with redis.Redis(port=any_server.port) as client:
        fields = {field for key in client.scan_iter("*:c:*") for field in client.hkeys(key)}
    assert not [field for field in fields if field.count(b".") == 2 and field[-1:] in b"+-"]
