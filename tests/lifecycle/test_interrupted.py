"""An exception out of a signal handler (Ctrl-C) comes up in the main thread at any point: nothing is lost or doubled.

CPython runs signal handlers where a function begins, and after calls of C functions. So does the profiler: here it
raises at the k-th such point within this library, for k = 0, 1, 2, ... until a call gets through.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import redis

import redis_counters
from redis_counters import Counters
from tests.faces.either import truth
from tests.servers import RealServer

OURS = str(Path(redis_counters.__file__).parent)
MOST = 5000  # points in one call, at the most

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


class Interrupted(BaseException):
    """What the signal handler raises: no Exception, as KeyboardInterrupt is none."""


def interrupted_at(point: int, call: Callable[[], object]) -> bool:
    """Make the call, with an exception at that point of it, counted from 0. False if it has not as many."""
    seen = 0

    def look(frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal seen
        if event in ("call", "c_return") and frame.f_code.co_filename.startswith(OURS):
            seen += 1
            if seen > point:
                sys.setprofile(None)
                raise Interrupted

    before = sys.getprofile()
    try:
        sys.setprofile(look)
        call()
    except Interrupted:
        return True
    finally:
        sys.setprofile(before)
    return False


def at_every_point(call: Callable[[], object], each: Callable[[bool], None]) -> int:
    """Interrupt the call at every point, one after the other, and tell ``each`` so. Return how many there are."""
    point = through = 0
    while through < 3:  # now and then a call has fewer points, as nothing is left to do
        assert point < MOST
        interrupted = interrupted_at(point, call)
        through = 0 if interrupted else through + 1
        point += 1
        each(interrupted)
    return point


OPTIONS: dict[str, dict[str, Any]] = {
    "one shard": {"flush_interval": 0.001},
    "three shards": {"flush_interval": 0.001, "shards": 3},
    "slow": {"flush_interval": 60},
    "nearly full": {"flush_interval": 0.001, "max_pending": 1, "on_full": "block"},
}


@pytest.mark.every(4, "interrupted at every point")
@pytest.mark.parametrize("options", OPTIONS)
def test_calls_that_do_not_count(any_server: RealServer, options: str) -> None:
    """Flush, reads and figures are interrupted at every point: totals stay exact, and no lock is left held."""
    with redis.Redis(port=any_server.port) as client, Counters(client, **OPTIONS[options]) as counters:
        calls: list[Callable[[], object]] = [
            counters.flush,
            lambda: counters.get("x"),
            lambda: counters.get("x", max_age=0),
            lambda: counters.get_many(["x", "y", "z"], max_age=0),
            counters.stats,
        ]
        total = points = 0

        def count(_interrupted: bool) -> None:
            nonlocal total
            for _ in range(3):
                counters.incr("x")
                counters.incr("x", 5)
                counters.decr("y", 2)
            total += 1

        for call in calls:
            count(False)
            points += at_every_point(call, count)
        others: list[object] = []
        other = threading.Thread(target=lambda: others.append(counters.get("x", max_age=0)), daemon=True)
        other.start()
        other.join(20)
        assert others == [18 * total], "another thread waits for a lock"
        counters.flush(20)
        assert points > 50
    assert truth(any_server, ["x", "y"]) == {b"x": 18 * total, b"y": -6 * total}


@pytest.mark.every(4, "interrupted at every point")
@pytest.mark.parametrize("options", OPTIONS)
def test_calls_that_count(any_server: RealServer, options: str) -> None:
    """A call that was interrupted has counted once or not at all; one that was not, once."""
    with redis.Redis(port=any_server.port) as client, Counters(client, **OPTIONS[options]) as counters:
        least = most = 0
        handle = counters.counter("x")
        calls: list[tuple[Callable[[], object], int]] = [
            (lambda: counters.incr("x"), 1),
            (lambda: counters.incr("x", 7), 7),
            (handle.incr, 1),
            (lambda: handle.add(2**40), 2**40),
            (lambda: counters.add(b"x", 3), 3),
        ]
        for call, amount in calls:

            def each(interrupted: bool, amount: int = amount) -> None:
                nonlocal least, most
                least += 0 if interrupted else amount
                most += amount
                counters.stats()  # so that the buffer is empty, and the next call looks after the background

            at_every_point(call, each)
        counters.flush(20)
    assert least <= truth(any_server, ["x"])[b"x"] <= most
    assert least > 0


@pytest.mark.parametrize("used", [False, True], ids=["never flushed", "flushed before"])
@pytest.mark.slow("interrupted at every point")
def test_closing(any_server: RealServer, used: bool) -> None:
    """A close that was interrupted may be made up for: everything is delivered, once; or it was closed already."""
    total = 0

    def made() -> Counters:
        nonlocal total
        counters = Counters(client, flush_interval=0.001)
        counters.incr("x")
        if used:
            counters.flush()
        counters.incr("x", 4)
        counters.decr("y")
        total += 1
        return counters

    with redis.Redis(port=any_server.port) as client:
        point = through = 0
        while through < 3:
            counters = made()
            through = 0 if interrupted_at(point, counters.close) else through + 1
            counters.close()
            point += 1
        assert point > 30
    assert truth(any_server, ["x", "y"]) == {b"x": 5 * total, b"y": -total}


@pytest.mark.slow("interrupted at every point")
def test_work_done_by_the_caller(any_server: RealServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no thread can be started the main thread sends and receives: interrupted there, counts stay exact."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("redis-counters"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with redis.Redis(port=any_server.port) as client, Counters(client, flush_interval=60, shards=2) as counters:
        total = 0

        def count(_interrupted: bool) -> None:
            nonlocal total
            for i in range(5):
                counters.incr(f"n{i}")
                counters.decr("y", 2)
            total += 1

        count(False)
        points = at_every_point(counters.flush, count)
        assert points > 100
        counters.flush(20)
    names = {b"n%d" % i: total for i in range(5)}
    assert truth(any_server, [*names, "y"]) == {**names, b"y": -10 * total}
