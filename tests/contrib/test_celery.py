"""Celery's worker, a program of its own with Redis as its broker: what tasks counted is there when it has ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from celery import Celery

from redis_counters import CounterError, Counters
from redis_counters.contrib.celery import CeleryCounters
from tests.faces.either import truth
from tests.lifecycle.children import FORKS, ROOT
from tests.needs import needs_package
from tests.servers import RealServer
from tests.waiting import PATIENCE, until

pytestmark = FORKS

APPS = "tests.contrib.apps"
POOLS = {
    "prefork": ["--concurrency=2"],
    "prefork, a process per two tasks": ["--concurrency=2", "--max-tasks-per-child=2"],
    "solo": ["--pool=solo"],
    "threads": ["--pool=threads", "--concurrency=3"],
    "gevent": ["--pool=gevent", "--concurrency=5"],
    "eventlet": ["--pool=eventlet", "--concurrency=5"],
    "prefork, of Django": ["--concurrency=2"],
    "prefork, of a client of one's own": ["--concurrency=2"],
}
OTHERS = {"prefork, of Django": "celery_django", "prefork, of a client of one's own": "celery_own"}
TASKS = 12


def broker(server: RealServer) -> str:
    return server.url.removesuffix("/0") + "/1"


@contextmanager
def worker(
    arguments: list[str], counts: RealServer, tasks: RealServer, log: Path, app: str = "celery_app"
) -> Iterator[subprocess.Popen[bytes]]:
    """A worker, ended by SIGTERM, as Celery calls a warm shutdown."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "celery",
                "-A",
                f"{APPS}.{app}",
                "worker",
                "--without-mingle",
                "--without-gossip",
                *arguments,
            ],
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "REDIS_COUNTERS_URL": counts.url,
                "BROKER": broker(tasks),
            },
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
        )
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()


def send(server: RealServer, name: str, *arguments: int, key: str) -> None:
    with Celery("tests", broker=broker(server)) as app:
        app.send_task(name, arguments, task_id=key)


@contextmanager
def counted(server: RealServer, name: str) -> Iterator[None]:
    """Wait, at the end, until all tasks have been there: `incr_once` is in Redis at once."""
    yield
    with Counters.from_url(server.url) as counters:
        until(lambda: counters.get(name, max_age=0) >= TASKS, f"{TASKS} tasks")


@pytest.mark.every(7, "a worker each")
@pytest.mark.parametrize("pool", POOLS)
def test_a_worker_is_stopped(any_server: RealServer, tmp_path: Path, pool: str) -> None:
    """The flush interval is longer than the test: the end of each process delivers."""
    if pool in ("gevent", "eventlet"):
        needs_package(pool)
    log = tmp_path / "log"
    app = OTHERS.get(pool, "celery_app")
    with worker(POOLS[pool], any_server, any_server, log, app), counted(any_server, "once"):
        for number in range(TASKS):
            send(any_server, "work", number, key=f"task-{number}")
    counts = truth(any_server, ["tasks", "amounts", "once", "loads"])
    assert counts == {b"tasks": TASKS, b"amounts": sum(range(TASKS)), b"once": TASKS, b"loads": 1}, log.read_text()
    assert "not delivered" not in log.read_text()


@pytest.mark.slow("a worker, and its pauses")
def test_a_task_that_runs_again(any_server: RealServer, tmp_path: Path) -> None:
    """Each attempt counts by `incr`; by `incr_once` with the task's id they are one."""
    with worker(POOLS["prefork"], any_server, any_server, tmp_path / "log"), counted(any_server, "finished"):
        for number in range(TASKS):
            send(any_server, "again", key=f"task-{number}")
    counts = truth(any_server, ["attempts", "finished"])
    assert TASKS <= counts[b"attempts"] <= 4 * TASKS
    assert counts[b"finished"] == TASKS


@pytest.mark.slow("a worker, and a time-out")
def test_redis_is_away_at_the_end(any_server: RealServer, private_server: RealServer, tmp_path: Path) -> None:
    """What the processes of the pool could not deliver is in the log, with its amounts."""
    log = tmp_path / "log"
    with worker(["--concurrency=1"], private_server, any_server, log):
        with counted(private_server, "once"):
            for number in range(TASKS):
                send(any_server, "work", number, key=f"task-{number}")
        private_server.kill()
    text = log.read_text()
    assert f"counter 'tasks': {TASKS} not known to be in Redis" in text, text
    assert f"counter 'amounts': {sum(range(TASKS))} not known to be in Redis" in text, text


def test_settings() -> None:
    """The app's settings are looked up at the first use; arguments come before them; a new one follows a closed one."""
    app = Celery("settings", broker="memory://")
    counters = CeleryCounters(app, max_age=0.0)
    app.conf.redis_counters_url = "memory://celery-settings"
    app.conf.redis_counters_options = {"namespace": "tasks", "max_age": 5.0}
    assert "not used yet" in repr(counters)
    counters.incr("x")
    assert "tasks" in repr(counters)
    counters._ends()
    assert counters.get("x") == 1
    counters.close()
    with pytest.raises(CounterError):
        counters.incr("x")
    with redis_at("memory://celery-settings", "tasks") as other:
        assert other.get("x") == 1


@contextmanager
def redis_at(url: str, namespace: str) -> Iterator[Counters]:
    with Counters.from_url(url, namespace=namespace) as counters:
        yield counters
