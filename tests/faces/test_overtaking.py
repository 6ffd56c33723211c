"""A read is overtaken on its way, by another read or by a flush: nothing is counted twice, no value falls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis

from redis_counters import Counters
from tests.faces.either import truth
from tests.servers import RealServer


class Hold:
    """The first read after `hold` reaches Redis only when it is let go. A client's connections come through here."""

    held = True

    def __init__(self, server: RealServer) -> None:
        hold = self

        class HeldConnection(redis.Connection):
            def send_packed_command(self, command: Any, check_health: bool = True) -> None:
                if not hold.held and b"HGETALL" in (command if isinstance(command, bytes) else b"".join(command)):
                    hold.held = True
                    hold.arrived.set()
                    assert hold.go.wait(10)
                super().send_packed_command(command, check_health)  # type: ignore[no-untyped-call] # redis-py's

        pool = redis.ConnectionPool(connection_class=HeldConnection, host=server.host, port=server.port)
        self.client = redis.Redis.from_pool(pool)

    def hold(self) -> None:
        self.arrived, self.go, self.held = threading.Event(), threading.Event(), False


def test_a_late_read_is_not_forgotten(any_server: RealServer) -> None:
    """A read asked first and answered last saw more than the one in between: the next value is not below it."""
    hold = Hold(any_server)
    with (
        hold.client as client,
        any_server.client() as another,
        Counters(client, max_age=60) as reader,
        Counters(another) as writer,
    ):
        writer.incr("x")
        writer.flush()
        assert reader.get("x", max_age=0) == 1
        hold.hold()
        seen: list[int] = []

        def late() -> None:
            seen.append(reader.get("x", max_age=0))
            seen.append(reader.get("x"))

        thread = threading.Thread(target=late, name="late")
        thread.start()
        assert hold.arrived.wait(10)
        in_between = threading.Thread(target=reader.get, args=("x",), kwargs={"max_age": 0})
        in_between.start()
        in_between.join(2)  # it may as well wait for the late one
        writer.incr("x", 5)
        writer.flush()
        hold.go.set()
        thread.join(10)
        in_between.join(10)
        assert seen == [6, 6]
    assert truth(any_server, ["x"]) == {b"x": 6}


def overtaken(hold: Hold, counters: Counters, meanwhile: Callable[[], None]) -> list[int]:
    """Return what a read gives that was asked before `meanwhile` and answered after it, and the next value."""
    hold.hold()
    seen: list[int] = []

    def read() -> None:
        seen.append(counters.get("x", max_age=0))
        seen.append(counters.get("x"))

    thread = threading.Thread(target=read)
    thread.start()
    assert hold.arrived.wait(10)
    meanwhile()
    hold.go.set()
    thread.join(10)
    return seen


@pytest.mark.parametrize("sign", [1, -1])
def test_the_first_flush_of_a_counter_overtakes_a_read(any_server: RealServer, sign: int) -> None:
    """What was not even counted when the read was asked, and is in its answer, is not added once more."""
    hold = Hold(any_server)
    with hold.client as client, Counters(client, max_age=60, flush_interval=60) as counters:
        counters.incr("of this namespace")
        counters.flush()

        def meanwhile() -> None:
            counters.add("x", 5 * sign)
            counters.flush()

        assert overtaken(hold, counters, meanwhile) == [5 * sign, 5 * sign]
        assert overtaken(hold, counters, meanwhile) == [10 * sign, 10 * sign]
        assert overtaken(hold, counters, lambda: counters.add("x", sign)) == [11 * sign, 11 * sign]
        counters.add("x", -3 * sign)  # now a slot of the other sign begins
        assert overtaken(hold, counters, meanwhile) == [13 * sign, 13 * sign]
    assert truth(any_server, ["x"]) == {b"x": 13 * sign}


def test_a_rotation_overtakes_a_read(any_server: RealServer) -> None:
    """The process moves to a new actor, flushes, closes and folds the old one while a read is on its way."""
    hold = Hold(any_server)
    options: dict[str, Any] = {"flush_interval": 0.002, "reassert_window": 0.003, "rotate_age": 0.003, "buckets": 1}
    with hold.client as client, Counters(client, max_age=60, **options) as counters:
        counters.incr("x", 100)
        counters.flush()
        total = 100

        def meanwhile() -> None:
            nonlocal total
            for i in range(60):
                counters.incr(f"other{i}")
                if i % 10 == 9:
                    counters.incr("x")
                    total += 1
                counters.flush()

        for _ in range(3):
            assert overtaken(hold, counters, meanwhile) == [total, total]
        actors = any_server.client().hgetall("{rc:0}:a")
        assert len(actors) > 10  # there was rotation
    assert truth(any_server, ["x"]) == {b"x": total}
