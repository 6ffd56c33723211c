"""The demo's worker processes: started, stopped, replaced, frozen, resumed, and their reports."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait

from redis_counters.demo.worker import OTHERS, Report, work

_JOIN = 30.0  # seconds: a worker that closes needs much less


@contextmanager
def _ctrl_c_held() -> Iterator[None]:
    """Hold Ctrl-C back until the end of the block; a process started inside never gets it.

    It reaches the whole process group, but only the parent acts on it: a child inherits what is blocked. Blocking alone
    would not do for the parent: another thread of it would take the signal, and the main thread be interrupted.
    """
    resource_tracker.ensure_running()  # else the first start would do this, and unblock the signal on the way
    held: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _frame: held.append(number))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGINT, handler)
    if held:
        raise KeyboardInterrupt


class Worker:
    """One process, seen from its parent. ``state``: counting, closing, frozen, closed or failed."""

    def __init__(self, number: int, url: str, plain: tuple[str, int]) -> None:
        # Spawned, not forked: the parent runs threads.
        context = multiprocessing.get_context("spawn")
        self._pipe: Connection
        self._pipe, theirs = context.Pipe()
        self.number = number
        self.state = "counting"
        self.note = ""  # for a human, behind the state
        self.report = Report(0, 0)
        self.rate = 0.0
        self._seen = time.monotonic()
        self._process = context.Process(target=work, args=(number, url, plain, theirs), daemon=True)
        with _ctrl_c_held():
            self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    @property
    def running(self) -> bool:
        return self.state not in ("closed", "failed")

    def read(self, timeout: float) -> None:
        """Read the reports that have arrived, waiting up to ``timeout`` seconds for the first."""
        try:
            while self.running and self._pipe.poll(timeout):
                self._take(self._pipe.recv())
                timeout = 0
        except (EOFError, OSError):
            self.state = "failed"
            self.report = Report(self.report.hot, self.report.total, error="the process ended without a last report")

    def _take(self, report: Report) -> None:
        now = time.monotonic()
        if not report.last and now > self._seen:
            rate = (report.total - self.report.total) / (now - self._seen)
            self.rate = rate if not self.rate else 0.8 * self.rate + 0.2 * rate
        self.report, self._seen = report, now
        if report.last:
            self.state, self.rate = "failed" if report.error else "closed", 0.0

    def stop(self) -> None:
        """Ask the worker to close, also if it was frozen."""
        if self.state == "frozen":
            self.resume()
        if self.state == "counting":
            self.state = "closing"
            try:
                self._pipe.send("stop")
            except OSError:
                self.read(0)

    def freeze(self) -> None:
        """Stop the process (SIGSTOP), wherever it is."""
        if self.state == "counting":
            os.kill(self.pid, signal.SIGSTOP)
            self.state, self.rate = "frozen", 0.0

    def resume(self) -> None:
        """Let the process go on (SIGCONT)."""
        if self.state == "frozen":
            os.kill(self.pid, signal.SIGCONT)
            self.state, self._seen = "counting", time.monotonic()

    def end(self) -> None:
        """End the process, at once if it is still running."""
        self._process.kill()
        self._process.join(_JOIN)
        self._process.close()
        self._pipe.close()


class Crew:
    """All workers of one demo. A context manager: outside of it no process is left."""

    def __init__(self, url: str, plain: tuple[str, int], size: int = 4) -> None:
        self._url, self._plain = url, plain
        self.workers: list[Worker] = []
        self._size = size

    def __enter__(self) -> Crew:
        try:
            for _ in range(self._size):
                self.hire()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        for worker in self.workers:
            worker.end()

    def hire(self) -> Worker:
        """Start one more process."""
        worker = Worker(len(self.workers) + 1, self._url, self._plain)
        self.workers.append(worker)
        return worker

    def read(self, timeout: float) -> None:
        """Read all reports, waiting up to ``timeout`` seconds for the first."""
        running = {worker._pipe: worker for worker in self.workers if worker.running}
        for pipe in wait(list(running), timeout):
            if isinstance(pipe, Connection):
                running[pipe].read(0)

    def finish(self) -> None:
        """Wait until every worker has closed and sent its last report, or has failed."""
        for worker in self.workers:
            worker.stop()
        deadline = time.monotonic() + _JOIN
        for worker in self.workers:
            while worker.running and (left := deadline - time.monotonic()) > 0:
                worker.read(left)

    @property
    def hot(self) -> int:
        """Increments of the hot name issued so far, as far as reported."""
        return sum(worker.report.hot for worker in self.workers)

    @property
    def total(self) -> int:
        """Increments of all names issued so far, as far as reported."""
        return sum(worker.report.total for worker in self.workers)

    @property
    def others(self) -> list[int]:
        """Increments issued per other name; complete after `finish`."""
        known = [worker.report.others for worker in self.workers if worker.report.others]
        return [sum(column) for column in zip(*known, strict=True)] if known else [0] * len(OTHERS)

    @property
    def errors(self) -> list[str]:
        """The errors of workers."""
        lines = [f"worker {w.number}: {w.report.error}" for w in self.workers if w.report.error]
        return lines + [f"worker {w.number}: did not end in {_JOIN:.0f} s" for w in self.workers if w.running]
