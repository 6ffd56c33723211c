"""What stands for a client that is made at its first use."""

from __future__ import annotations

import logging
import threading

import pytest

from redis_counters import Counters, UsageError
from redis_counters.contrib.proxy import Lazy
from redis_counters.testing import LossyLink
from tests.lifecycle.children import FORKS, ended_well, forked
from tests.servers import RealServer


def test_it_has_every_method_and_makes_nothing_before() -> None:
    made: list[Counters] = []

    def make() -> Counters:
        made.append(Counters.from_url("memory://"))
        return made[-1]

    counters = Lazy(make)
    assert not hasattr(counters, "__wrapped__")  # as tools ask that look through modules
    assert not hasattr(counters, "_core")
    assert "not used yet" in repr(counters)
    assert not made
    for name in dir(Counters):
        if not name.startswith("_"):
            assert getattr(counters, name) == getattr(made[0], name)
    assert len(made) == 1
    counters.incr("x")
    assert counters.get("x") == 1
    counters._end()
    with pytest.raises(UsageError):
        made[0].incr("x")
    counters.incr("x")  # a new one
    assert len(made) == 2
    counters._end()
    counters._end()


def test_two_threads_come_at_once() -> None:
    """Both make one; the second is closed, and whatever they count is counted in the first."""
    both = threading.Barrier(2)
    made: list[Counters] = []

    def make() -> Counters:
        both.wait(30)
        made.append(Counters.from_url("memory://two-threads"))
        return made[-1]

    counters = Lazy(make)
    threads = [threading.Thread(target=lambda: counters.incr("x")) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 2
    assert counters.get("x", max_age=0) == 2
    assert sum(each.stats().accepted for each in made) == 2
    late = [each for each in made if each is not counters._current()]
    with pytest.raises(UsageError):
        late[0].incr("x")
    counters._end()


class TestForks:
    pytestmark = FORKS

    def test_used_before_a_fork_and_after(self, any_server: RealServer) -> None:
        counters = Lazy(lambda: Counters.from_url(any_server.url, flush_interval=30))
        counters.incr("x")

        def child() -> None:
            counters.incr("x", 10)
            counters._end()

        children = [forked(child) for _ in range(3)]
        ended_well(*children)
        counters._end()
        with Counters.from_url(any_server.url) as reading:
            assert reading.get("x") == 31


def test_what_is_lost_at_the_end_is_logged(any_server: RealServer, caplog: pytest.LogCaptureFixture) -> None:
    with LossyLink(any_server.url) as link:
        counters = Lazy(lambda: Counters.from_url(link.url, flush_interval=30))
        counters.incr("x", 5)
        link.stop()
        with caplog.at_level(logging.ERROR, "redis_counters"):
            counters._end()
    assert "pending: {'x': 5}" in caplog.text
