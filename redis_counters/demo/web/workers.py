"""The web servers: started, started again when they die, and ended in order."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from redis_counters.demo.web.settings import Settings
from redis_counters.demo.web.worker import READY
from redis_counters.errors import CounterError

COUNT = 2
_IN_ORDER = 6.0  # seconds until a worker that was asked to end is killed
_FAILURES = 5  # in a row to get ready, after which it gives up
_PAUSE = 0.2  # seconds before another attempt


class Workers:
    """A context manager: outside of it no worker runs.

    ``pids`` are those of the workers that are ready.
    """

    def __init__(self, listening: socket.socket, settings: Settings, report: Callable[[str], object]) -> None:
        self._listening, self._report = listening, report
        self._settings = replace(settings, socket=listening.fileno())
        self._pids: dict[int, int] = {}
        self._ready = asyncio.Event()  # set when another worker is ready, or has failed for good
        self._stopping = False
        self._running: dict[int, asyncio.subprocess.Process] = {}
        self._keepers: list[asyncio.Task[None]] = []
        self._failure: CounterError | None = None

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(pid for _, pid in sorted(self._pids.items()))

    async def __aenter__(self) -> Workers:
        self._keepers = [asyncio.create_task(self._keep(number)) for number in range(1, COUNT + 1)]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._stopping = True
        await asyncio.gather(*map(self._end, list(self._running.values())))
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        for process in list(self._running.values()):  # one that was being started
            await self._end(process)

    async def ready(self) -> None:
        """Wait until all workers serve. Raises: CounterError if they do not."""
        while len(self._pids) < COUNT:
            await self._ready.wait()
            self._ready.clear()
            self.check()

    def check(self) -> None:
        """Raises: CounterError if a worker cannot be started."""
        if self._failure is not None:
            raise self._failure

    async def _keep(self, number: int) -> None:
        """Keep a worker of this number running: start another when it ends."""
        failures = 0
        while not self._stopping:
            process = await self._start(number)
            assert process.stdout is not None
            if await process.stdout.readline() == READY:
                failures = 0
                self._pids[number] = process.pid
                self._ready.set()
            code = await process.wait()
            was_ready = self._pids.pop(number, None) is not None
            self._running.pop(number, None)
            if self._stopping:
                return
            failures += not was_ready
            if failures == _FAILURES:
                self._failure = CounterError(f"web server {number} does not start (exit code {code})")
                self._ready.set()
                return
            if was_ready:
                self._report(f"web server {number} (process {process.pid}) is gone, another takes its place")
            await asyncio.sleep(_PAUSE)

    async def _start(self, number: int) -> asyncio.subprocess.Process:
        # Workers import from the same places, also where this process was started in a checkout.
        path = os.pathsep.join(os.path.abspath(place) for place in sys.path)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "redis_counters.demo.web.worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
            pass_fds=[self._listening.fileno()],
            start_new_session=True,  # Ctrl-C is for the parent, which ends them
        )
        self._running[number] = process
        assert process.stdin is not None
        process.stdin.write(self._settings.to_line())  # the pipe stays open: a worker ends when it closes
        return process

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """End the process, in order if it can."""
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _IN_ORDER)
        except asyncio.TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
