"""A client whose connecting is interrupted uses no connection that is half set up: no wrong answer, no wrong database.

An exception of a signal handler (Ctrl-C, an alarm) may come up anywhere in redis-py while it logs in and chooses the
database. redis-py puts such a connection back into its pool as it is, and takes it for ready.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
import redis.asyncio

from redis_counters import CounterError, Counters
from redis_counters.testing import LossyLink
from tests.faces.either import FACES, Either, closed, once, truth
from tests.servers import RealServer

DATABASE = 3
LATE = 0.005  # seconds by which answers come later than anybody looks for what was left unread
MOST = 1000


class Interrupted(BaseException):
    """As KeyboardInterrupt, which asyncio would treat in a way of its own."""


class AlarmError(Exception):
    """As a handler of SIGALRM raises."""


class Steps:
    """Raises before or after one of the steps of redis-py's log-in: a command sent, an answer read, or all of it."""

    def __init__(self, face: str, patch: pytest.MonkeyPatch) -> None:
        self.armed = self.connecting = False
        self.seen = self.point = 0
        self.error: type[BaseException] = Interrupted
        self.raised = True  # at the last point that was asked for
        kind: Any = redis.Connection if face == "blocking" else redis.asyncio.Connection
        log_in = "on_connect_check_health" if hasattr(kind, "on_connect_check_health") else "on_connect"
        wrapped = self.blocking if face == "blocking" else self.asyncio
        for name in ("send_command", "read_response", log_in):
            patch.setattr(kind, name, wrapped(getattr(kind, name), name == log_in))

    def step(self) -> None:
        if self.armed and self.connecting:
            self.seen += 1
            if self.seen > self.point:
                self.armed, self.raised = False, True
                raise self.error

    @contextmanager
    def around(self, all_of_it: bool) -> Iterator[None]:
        self.connecting = self.connecting or all_of_it
        try:
            self.step()
            yield
            self.step()
        finally:
            self.connecting = self.connecting and not all_of_it

    def blocking(self, method: Callable[..., Any], all_of_it: bool) -> Callable[..., Any]:
        @functools.wraps(method)
        def wrapper(*arguments: Any, **options: Any) -> Any:
            with self.around(all_of_it):
                return method(*arguments, **options)

        return wrapper

    def asyncio(self, method: Callable[..., Any], all_of_it: bool) -> Callable[..., Any]:
        @functools.wraps(method)
        async def wrapper(*arguments: Any, **options: Any) -> Any:
            with self.around(all_of_it):
                return await method(*arguments, **options)

        return wrapper

    @contextmanager
    def interrupted_at(self, point: int) -> Iterator[None]:
        self.armed, self.raised, self.seen, self.point = True, False, 0, point
        try:
            yield
        except (self.error, CounterError):
            pass  # as what ends the call depends on where it came up
        finally:
            self.armed = False


def client_on(face: str, link: LossyLink) -> Any:
    module = redis if face == "blocking" else redis.asyncio
    url = f"{link.url.rpartition('/')[0]}/{DATABASE}"
    return module.Redis.from_url(url, client_name="somebody", socket_timeout=10, retry=once(face))


@pytest.mark.every(5, "interrupted at every point")
@pytest.mark.parametrize("error", [Interrupted, AlarmError])
@pytest.mark.parametrize("again", [False, True], ids=["at first", "when it reconnects"])
@pytest.mark.parametrize("face", FACES)
def test_a_read_that_is_interrupted_while_it_connects(
    any_server: RealServer, face: str, again: bool, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every step of the log-in: the next reads and flush are right, and database 0 is left alone."""
    for database, amount in ((DATABASE, 7), (0, 1000)):
        with Counters(any_server.client(db=database), buckets=1) as before:
            before.incr("x", amount)
    steps = Steps(face, monkeypatch)
    steps.error = error

    async def main() -> int:
        point = 0
        while steps.raised:
            assert point < MOST
            client = client_on(face, link)
            async with Either(face, client, flush_interval=60) as counters:
                if again:
                    assert await counters.get("x", max_age=0) == 7
                    link.drop_reply(every=1, times=1, commands=["HGETALL"])
                with steps.interrupted_at(point):
                    await counters.get("x", max_age=0)
                for _ in range(3):
                    assert await counters.get("x", max_age=0) == 7
                counters.incr("y")
                await counters.flush()
            await closed(client)
            point += 1
        return point

    with LossyLink(any_server.url) as link:
        link.delay(LATE)
        points = asyncio.run(main())
    assert points > 8
    assert truth(any_server, ["x", "y"], db=DATABASE) == {b"x": 7, b"y": points}
    assert truth(any_server, ["x", "y"]) == {b"x": 1000, b"y": 0}
