"""A fork waits for threads that look a host up: glibc's locks, if held, would be held in the child for ever.

By chance they are held for microseconds: where two threads did nothing else, one child in a thousand hung.
"""

from __future__ import annotations

import _socket
import ctypes
import os
import socket
import threading
import time

import pytest

from redis_counters.drivers import forks
from tests.lifecycle.children import FORKS, ended_well, forked, program

pytestmark = FORKS


def forked_while_looking_up(monkeypatch: pytest.MonkeyPatch, seconds: float) -> tuple[float, bool]:
    """Return the seconds that a fork took, and whether a thread's look-up was over by then, which takes so long."""
    # In C, as the real one is, and without the interpreter's lock; the other arguments are left alone.
    monkeypatch.setattr(_socket, "getaddrinfo", ctypes.CDLL(None).usleep)
    over = threading.Event()

    def look_up() -> None:
        try:
            socket.getaddrinfo(round(seconds * 1e6), 0)  # type: ignore[arg-type]
        except TypeError:  # the answer is none
            over.set()

    thread = threading.Thread(target=look_up)
    thread.start()
    while not forks._somebody_looks_up():
        time.sleep(0.001)
    began = time.monotonic()
    child = forked(lambda: None)
    took, was_over = time.monotonic() - began, over.is_set()
    ended_well(child)
    thread.join(10)
    return took, was_over


def test_a_fork_waits_for_a_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks up, of this library or not: the child begins when it is over."""
    monkeypatch.setattr(forks, "LONGEST_WAIT", 30.0)
    _took, was_over = forked_while_looking_up(monkeypatch, 0.1)
    assert was_over


def test_a_fork_does_not_wait_for_a_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not answer keeps nobody from forking."""
    took, was_over = forked_while_looking_up(monkeypatch, 2.0)
    assert not was_over
    assert took >= forks.LONGEST_WAIT


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
