"""A fork waits for threads that look a host up: glibc's locks, if held, would be held in the child for ever.

By chance they are held for microseconds: where two threads did nothing else, one child in a thousand hung.
"""

from __future__ import annotations

import _socket
import contextlib
import ctypes
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from redis_counters.drivers.process import fork_hooks
from tests.lifecycle.children import FORKS, ended_well, forked, program
from tests.waiting import PATIENCE, until

pytestmark = FORKS


@pytest.fixture
def looking_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """A thread looks a host up, until what this yields is called, or the test is over."""
    # In C, as the real one is, and without the interpreter's lock: it reads from a pipe until that is closed.
    monkeypatch.setattr(_socket, "getaddrinfo", ctypes.CDLL(None).read)
    answers, closing = os.pipe()
    left = [closing]

    def end() -> None:
        while left:
            os.close(left.pop())

    def look_up() -> None:
        with contextlib.suppress(TypeError):  # the answer is none
            socket.getaddrinfo(answers, 0, 1)  # type: ignore[arg-type]

    thread = threading.Thread(target=look_up)
    thread.start()
    until(fork_hooks._somebody_looks_up, "it looks up")
    yield end
    end()
    thread.join(PATIENCE)
    os.close(answers)


def test_a_fork_waits_for_a_look_up(looking_up: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks up, of this library or not: the child begins when it is over."""
    monkeypatch.setattr(fork_hooks, "MAX_WAIT_S", PATIENCE)
    over = threading.Event()

    def answer() -> None:
        over.set()
        looking_up()

    answering = threading.Timer(0.1, answer)
    answering.start()
    child = forked(lambda: None)
    was_over = over.is_set()
    ended_well(child)
    answering.join()
    assert was_over


def test_a_fork_does_not_wait_for_a_name_server(looking_up: Callable[[], None]) -> None:
    """One that does not answer keeps nobody from forking."""
    began = time.monotonic()
    child = forked(lambda: None)
    took = time.monotonic() - began
    assert fork_hooks._somebody_looks_up()
    ended_well(child)
    assert took >= fork_hooks.MAX_WAIT_S


def test_the_codec_of_host_names_is_there() -> None:
    """In both faces, before any thread needs it: a fork during its import leaves the lock of the import held."""
    for face in ("redis_counters", "redis_counters.asyncio"):
        assert program(f"import sys, {face}; print('encodings.idna' in sys.modules)").stdout == "True\n"


def test_children_look_up_while_threads_do() -> None:
    """Two threads look up again and again, of 100 children no one hangs."""
    over = threading.Event()

    def look_up() -> None:
        while not over.is_set():
            socket.getaddrinfo("localhost", 0)
            over.wait(0.0005)

    threads = [threading.Thread(target=look_up) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            ended_well(*(forked(lambda: os._exit(not socket.getaddrinfo("localhost", 0))) for _ in range(5)))
    finally:
        over.set()
        for thread in threads:
            thread.join(10)


GARBAGE = """
import gc, threading, time
from redis_counters.drivers.process import fork_hooks

class Cycle:
    def __init__(self):
        self.itself, self.local = self, threading.local()
        self.local.value = 1

for more in range(40):
    over = threading.Event()
    threads = [threading.Thread(target=over.wait) for _ in range(20)]
    for thread in threads:
        thread.start()
    gc.collect()
    gc.disable()
    time.sleep(0.01)  # all of them wait
    garbage = [Cycle() for _ in range(3)]
    del garbage
    gc.set_threshold(gc.get_count()[0] + more)  # a collection begins that many objects from now
    gc.enable()
    fork_hooks._before_fork()
    assert gc.isenabled()
    over.set()
    for thread in threads:
        thread.join()
gc.disable()
fork_hooks._before_fork()
assert not gc.isenabled()
"""


def test_garbage_is_not_collected_within_the_look() -> None:
    """Where it is thread-local values, CPython 3.11 would wait for a lock that it has itself, for ever."""
    done = program(GARBAGE, timeout=30)
    assert done.returncode == 0, done.stderr
