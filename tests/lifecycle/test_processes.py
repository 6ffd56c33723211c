"""A forked child begins empty and counts for itself; a process that just ends has delivered what it counted."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import redis

from redis_counters import Counters
from tests.faces.either import truth
from tests.lifecycle.children import FORKS, ended_well, forked
from tests.servers import RealServer

ROOT = Path(__file__).parents[2]

pytestmark = FORKS


def test_four_children(server: RealServer) -> None:
    """Children of a process that counts: each starts at nothing, counts a thousand, closes; all are exact."""
    with redis.Redis(port=server.port) as client, Counters(client, flush_interval=0.01) as counters:
        handle = counters.counter("x")
        for _ in range(1000):
            handle.incr()
            counters.incr("parent's")

        def work() -> None:
            assert counters.stats().pending == 0
            assert counters.stats().accepted == 0
            for _ in range(1000):
                handle.incr()
                counters.incr("children's")
            assert counters.get("children's") >= 1000
            counters.flush(10)
            counters.incr("children's")
            counters.close(10)

        children = [forked(work) for _ in range(4)]
        for _ in range(500):
            handle.incr()
        ended_well(*children)
        counters.flush()
        assert counters.get_many(["x", "parent's", "children's"], max_age=0) == {
            "x": 5500,
            "parent's": 1000,
            "children's": 4004,
        }
    assert truth(server, ["x", "parent's", "children's"]) == {b"x": 5500, b"parent's": 1000, b"children's": 4004}


def test_a_child_does_not_send_what_waits_in_the_parent(any_server: RealServer) -> None:
    """What the parent had buffered at the fork is delivered by the parent alone; a grandchild begins empty too."""
    with redis.Redis(port=any_server.port) as client, Counters(client, flush_interval=60) as counters:
        counters.incr("x", 7)
        counters.incr("x")

        def grandchild() -> None:
            counters.flush(5)
            counters.incr("x", 1000)
            counters.flush(5)

        def child() -> None:
            counters.flush(5)
            assert counters.get("x", max_age=0) == 0
            counters.incr("x", 100)
            ended_well(forked(grandchild))
            counters.close(5)

        ended_well(forked(child))
        assert counters.get("x", max_age=0) == 1108
    assert truth(any_server, ["x"]) == {b"x": 1108}


def test_forks_while_threads_count(any_server: RealServer) -> None:
    """Whatever lock another thread holds at the fork, the child counts, flushes, reads and ends; sixty times."""
    with redis.Redis(port=any_server.port) as client, Counters(client, flush_interval=0.001) as counters:
        over = threading.Event()
        counted = [0] * 3

        def count(number: int) -> None:
            while not over.is_set():
                counters.incr("x")
                counters.add(f"n{counted[number] % 10}", 2)
                counters.get("x")
                counted[number] += 1

        threads = [threading.Thread(target=count, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()

        def work() -> None:
            counters.incr("child's")
            counters.flush(60)  # a machine that is busy with other things may take 10 s; what hangs does so for ever
            assert counters.get("child's", max_age=0) >= 1

        try:
            for _ in range(12):
                ended_well(*(forked(work, limit=90) for _ in range(5)))
        finally:
            over.set()
            for thread in threads:
                thread.join(10)
    assert truth(any_server, ["x", "child's"]) == {b"x": sum(counted), b"child's": 60}


SCRIPT = """
import sys, threading
import redis
import redis_counters
url, how = sys.argv[1:]
client = redis.Redis.from_url(url)
counters = redis_counters.Counters(client, flush_interval=60)
for _ in range(1000):
    counters.incr("x")
counters.incr(b"\\xff", 5)
if how == "error":
    raise SystemExit(3)
if how == "thread":
    threading.Thread(target=lambda: [counters.incr("x") for _ in range(1000)]).start()
if how == "flushed":
    counters.flush()
    counters.incr("x", 1000)
if how == "url":
    other = redis_counters.Counters.from_url(url, flush_interval=60)
    other.incr("x", 1000)
"""


@pytest.mark.parametrize(
    ("how", "total"), [("end", 1000), ("error", 1000), ("thread", 2000), ("flushed", 2000), ("url", 2000)]
)
def test_a_process_ends_without_close(any_server: RealServer, how: str, total: int) -> None:
    """At exit everything is delivered and folded, without a word on stderr."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, any_server.url, how],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == (3 if how == "error" else 0)
    assert done.stderr == ""
    assert truth(any_server, ["x", b"\xff"]) == {b"x": total, b"\xff": 5}
    with redis.Redis(port=any_server.port) as client, Counters(client) as counters:
        assert counters.inspect("x").actors == {}


def test_a_process_ends_with_redis_away() -> None:
    """It ends in bounded time, with its own exit code, and says on stderr what was lost."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "redis://127.0.0.1:1/0", "end"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    assert "'x': 1000 not known to be in Redis" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_fork_while_the_pool_is_in_use(any_server: RealServer) -> None:
    """A thread of the parent has the lock of redis-py's pool at that moment: the child does not wait for it."""
    with redis.Redis(port=any_server.port) as client, Counters(client) as counters:
        counters.incr("x")
        counters.flush()

        def work() -> None:
            counters.incr("x")
            assert counters.get("x", max_age=0) >= 1
            counters.close(10)

        pool: Any = client.connection_pool
        with pool._lock:
            child = forked(work)
        ended_well(child)
        assert truth(any_server, ["x"]) == {b"x": 2}
