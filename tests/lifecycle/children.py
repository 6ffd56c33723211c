"""Child processes of tests: forked ones, and programs of their own."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from redis_counters.drivers.redis_py import after_fork

Test = TypeVar("Test", bound=Callable[..., object])

ROOT = Path(__file__).parents[2]
TRIES = 5  # to fork in C
LIMIT = 20  # seconds until a child that hangs is killed, and fails

# The second is of Python 3.12 and later: it warns of every fork of a process with threads.
QUIET = ["-W", "ignore::ResourceWarning", "-W", "ignore:This process:DeprecationWarning"]
FORKS = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


def forks(test: Test) -> Test:
    """Mark one test, as `FORKS` does all of a file."""
    for mark in FORKS:
        test = mark(test)
    return test


def forked(work: Callable[[], None], limit: int = LIMIT) -> int:
    """Return the pid of a child that does the work and ends by 0, or by 1 after an error, or is killed at the limit."""
    return _child_of(os.fork, work, limit)


def _child_of(fork: Callable[[], int], work: Callable[[], None], limit: int) -> int:
    pid = fork()
    if pid:
        return pid
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # pytest-timeout's handler is Python, and would wait with all else
    signal.alarm(limit)
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()  # captured, and shown if the test fails
        faulthandler.dump_traceback(2)  # where the other threads are
    finally:
        sys.stderr.flush()
        os._exit(code)


def forked_in_c(work: Callable[[], None], limit: int = LIMIT) -> int:
    """As `forked`, by the C library: no hook of Python runs, in either process.

    A child in which a thread that was not forked waits for the interpreter's lock may hang within that lock for ever,
    whatever it does next. So threads come to rest before, and those that do not ask for the lock no more; and a child
    that does not even begin is forked again.
    """
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # seconds until a thread that waits for the lock asks for it
    try:
        for _ in range(TRIES):
            time.sleep(0.2)
            reading, writing = os.pipe()

            def usually(alive: int = writing) -> None:
                sys.setswitchinterval(usual)
                os.write(alive, b"!")
                work()

            child = _child_of(ctypes.PyDLL(None).fork, usually, limit)
            os.close(writing)
            lives = select.select([reading], [], [], limit / 2)[0] and os.read(reading, 1)
            os.close(reading)
            if lives:
                return child
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    finally:
        sys.setswitchinterval(usual)
    raise AssertionError(f"{TRIES} children hang before they do anything")


def with_each_lock_held(client: Any, work: Callable[[], None]) -> int:
    """Fork while each of the locks within the client is held: all children get through. Return how many there are."""
    within = [value for _owner, _name, value in after_fork._attributes(client)]
    locks = {id(lock): lock for lock in within if type(lock) in after_fork._OF_THREADS}.values()
    for lock in locks:
        with lock:
            child = forked(work)
        ended_well(child)
    return len(locks)


def ends_well(work: Callable[[], None]) -> None:
    """A child does the work and ends well."""
    ended_well(forked(work))


def ends_well_in_c(work: Callable[[], None]) -> None:
    """A child of the C library ends well, though threads were at work at its fork: what hangs is tried again."""
    for _ in range(TRIES):
        code = os.waitstatus_to_exitcode(os.waitpid(forked_in_c(work), 0)[1])
        if code != -signal.SIGALRM:
            break
    assert code == 0


def ended_well(*pids: int) -> None:
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0] * len(pids)


def program(text: str, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Return how a Python program of its own ended, with what it printed."""
    return subprocess.run(
        [sys.executable, "-W", "default", *QUIET, "-c", text, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
