"""Bounded memory: what is counted gets to Redis in time, and a client that holds too much is replaced."""

from __future__ import annotations

import dataclasses
import os
import signal

import pytest

from redis_counters.cli.counting import delivery
from redis_counters.cli.counting.delivery import Delivery
from redis_counters.cli.counting.progress import Progress
from redis_counters.cli.stop_signals import Stop
from redis_counters.errors import Unavailable
from tests.cli.commands import values
from tests.servers import RealServer


def test_a_client_that_holds_too_much_is_replaced(server: RealServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots never exceed the limit by more than a block; hot and cold names are exact across the clients."""
    monkeypatch.setattr(delivery, "MAX_SLOTS", 100)
    held, flushed = [], []
    with Stop() as stop, Delivery(server.url, "rc", "main", Progress(), stop, timeout=30) as into:
        into.show = lambda done, count, note: flushed.append(count)
        for number in range(40):
            cold = {b"%d" % (number * 10 + i): 2 for i in range(10)}
            assert into.count({b"hot": 3, **cold}, b"")
            into._counters.flush()
            held.append(into._counters.stats().slots)
            into.refresh()
        into.finish()
    assert 100 < max(held) < 120
    assert flushed == sorted(flushed)
    assert flushed[-1] == 40 * 11
    names = [b"%d" % number for number in range(400)]
    assert values(server, [b"hot", *names]) == {b"hot": 120, **dict.fromkeys(names, 2)}


def test_pending_names_are_limited(private_server: RealServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a server that hangs it waits before a block, then gives up, and nothing of that block is counted."""
    monkeypatch.setattr(delivery, "MAX_PENDING", 100)
    names = [b"%d" % number for number in range(120)]
    with Stop() as stop, Delivery(private_server.url, "rc", "main", Progress(), stop, timeout=0.5) as into:
        into.check()
        private_server.pause()
        assert into.count(dict.fromkeys(names[:60], 1), b"")
        with pytest.raises(Unavailable) as caught:
            into.count(dict.fromkeys(names[60:], 1), b"")
        private_server.resume()
    assert len(caught.value.pending) == 60


def test_all_gets_across_in_the_last_moment(any_server: RealServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time to wait is over, and then all is across after all: it goes on counting, and nothing is lost."""
    monkeypatch.setattr(delivery, "MAX_PENDING", 100)
    with Stop() as stop, Delivery(any_server.url, "rc", "main", Progress(), stop, timeout=0) as into:
        into.check()
        assert into.count({b"early": 1}, b"")
        counters = into._counters
        counters.flush()
        full = counters.stats()
        monkeypatch.setattr(
            counters, "stats", lambda: dataclasses.replace(full, pending=0 if counters._runner.state.refusing else 100)
        )
        assert into.count({b"late": 1}, b"")
        into._timeout = 30
        into.finish()
    assert values(any_server, [b"early", b"late"]) == {b"early": 1, b"late": 1}


def test_a_signal_ends_the_waiting(private_server: RealServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told to stop, it does not wait for a server that hangs, and what could not be taken in is not counted."""
    monkeypatch.setattr(delivery, "MAX_PENDING", 100)
    names = [b"%d" % number for number in range(120)]
    with Stop() as stop, Delivery(private_server.url, "rc", "main", Progress(), stop, timeout=30) as into:
        into.check()
        private_server.pause()
        assert into.count(dict.fromkeys(names[:60], 1), b"")
        into.show = lambda done, count, note: os.kill(os.getpid(), signal.SIGINT) if not stop else None
        assert not into.count(dict.fromkeys(names[60:], 1), b"")
        private_server.resume()
        into.finish()
    assert values(private_server, names) == dict.fromkeys(names[:60], 1)
