"""Children that are killed at a chosen point: before the n-th statement of SQLite, word with Redis, name of a file."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import sqlite3
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from redis_counters.drivers.redis_py import lanes

LIMIT = 60  # seconds until a child that hangs is killed, and fails

Work = Callable[[Callable[[str], None]], Awaitable[None]]


class Fate:
    """Kills this process at the n-th point of its kind; ``points``: "sql", "redis" or "files"."""

    def __init__(self, points: str, number: int) -> None:
        self.left = number
        if points == "sql":
            connect: Any = sqlite3.connect

            def traced(*arguments: Any, **options: Any) -> Any:
                connection = connect(*arguments, **options)
                connection.set_trace_callback(self.passed)
                return connection

            sqlite3.connect = traced
        elif points == "files":
            for name in ("rename", "unlink"):
                setattr(os, name, self._before(getattr(os, name)))
        else:
            for lane in (lanes.BlockingLane, lanes.AsyncioLane):
                for method in ("send", "receive"):
                    setattr(lane, method, self._before(getattr(lane, method)))

    def _before(self, method: Any) -> Any:
        def passing(*arguments: Any) -> Any:
            self.passed()
            return method(*arguments)

        return passing

    def passed(self, statement: str = "") -> None:
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


def killed_at(points: str, number: int, work: Work) -> tuple[bool, list[str]]:
    """Return whether the child was killed there (else it came to its end), and what it said until then."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(LIMIT)
        faulthandler.dump_traceback_later(LIMIT / 2)  # where it hangs
        code = 1
        try:
            os.close(reading)
            Fate(points, number)
            asyncio.run(_do(work, writing))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(writing)
    with open(reading) as said:
        lines = said.read().splitlines()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, -signal.SIGKILL), status
    return status != 0, lines


async def _do(work: Work, writing: int) -> None:
    await work(lambda line: _say(writing, line))


def _say(writing: int, line: str) -> None:
    os.write(writing, line.encode() + b"\n")
