"""Who waits on a connection is cut off at his deadline; nobody else ever is, whatever interrupted the watching."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from redis import exceptions

from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.redis_py import watching
from redis_counters.drivers.redis_py.watching import Watched

LIMIT = 30  # seconds: what takes longer is not cut off


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Any, socket.socket]]]:
    """Connections as redis-py has them, each with its other end, and a watch that has not begun."""
    monkeypatch.setattr(watching, "_watch", watching._Watch())
    pairs = [socket.socketpair() for _ in range(2)]
    for own, _other in pairs:
        own.settimeout(LIMIT)
    yield [(SimpleNamespace(_sock=own), other) for own, other in pairs]
    for pair in pairs:
        for end in pair:
            end.close()


def cut_off(connection: Any) -> bool:
    """Wait on the connection; tell whether its socket was shut down under who does so."""
    with pytest.raises(exceptions.TimeoutError, match="no answer within"), Watched(connection, Deadline(0.0)):
        assert connection._sock.recv(1) == b""
    return True


@pytest.mark.parametrize("started", [True, False])
def test_who_was_interrupted_is_forgotten(
    connections: list[tuple[Any, socket.socket]], monkeypatch: pytest.MonkeyPatch, started: bool
) -> None:
    """Ctrl-C while the watch starts: others are cut off at their deadlines all the same, and the first never."""
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if started:
            start(thread)
        raise KeyboardInterrupt

    (first, its_other), (second, _) = connections
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt), Watched(first, Deadline(0.0)):
            pytest.fail("it was interrupted before")
    assert cut_off(second)
    its_other.sendall(b"x")
    assert first._sock.recv(1) == b"x"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_watch_that_failed_is_replaced(
    connections: list[tuple[Any, socket.socket]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that ends the thread, as lack of memory, ends no deadlines of later calls."""
    (first, _), (second, _) = connections
    failed = threading.Event()

    def fail(connection: Any) -> None:
        failed.set()
        raise SystemExit  # of which threads end without a word

    with monkeypatch.context() as patch:
        patch.setattr(watching, "_shut_down", fail)
        with pytest.raises(exceptions.TimeoutError), Watched(first, Deadline(0.0)):
            assert failed.wait(LIMIT)
    assert cut_off(second)
