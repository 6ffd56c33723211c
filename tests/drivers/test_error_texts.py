"""What redis-py and Redis say, in the sentences of this library."""

from __future__ import annotations

import asyncio
import logging
import traceback

import pytest
import redis
import redis.asyncio
from redis import exceptions

import redis_counters.asyncio
from redis_counters import Counters, NotPermitted, Unavailable
from redis_counters.drivers.redis_py.errors import error_reply, translate
from tests.servers import NOWHERE, RealServer
from tests.waiting import until

SAID = [
    exceptions.ConnectionError("Error 111 connecting to localhost:6379. Connection refused."),
    exceptions.ConnectionError("Connection closed by server."),
    exceptions.TimeoutError("Timeout reading from socket."),
    exceptions.AuthenticationError("invalid username-password pair or user is disabled."),
    exceptions.RedisError("Something else."),
    exceptions.BusyLoadingError("Redis is loading the dataset in memory."),
]


@pytest.mark.parametrize("error", SAID, ids=str)
def test_a_sentence_of_others_goes_on(error: exceptions.RedisError) -> None:
    """Their full stop is left out, for our sentences go on behind theirs."""
    assert not str(translate(error)).endswith(".")
    assert str(error).rstrip(".") in str(translate(error))


def test_a_server_that_loads_is_not_away() -> None:
    """To redis-py that is a broken connection."""
    said = str(translate(exceptions.BusyLoadingError("Redis is loading the dataset in memory.")))
    assert said == "LOADING Redis is loading the dataset in memory"


def test_so_does_an_error_of_redis() -> None:
    """The answer to a script when Redis is out of memory, as Redis 7 puts it."""
    said = "command not allowed when used memory > 'maxmemory'. script: 30ebb9, on @user_script:154."
    assert error_reply(exceptions.OutOfMemoryError(said)).text == f"OOM {said[:-1]}"


def test_what_redis_py_itself_may_not_do() -> None:
    """It asks a cluster for its commands, as the same user."""
    error = exceptions.NoPermissionError("this user has no permissions to run the 'command' command")
    assert isinstance(translate(error), NotPermitted)


def test_what_is_logged_while_redis_is_away(caplog: pytest.LogCaptureFixture) -> None:
    """No line has a full stop before a semicolon, and times are rounded for people."""
    counters = Counters.from_url(f"redis://127.0.0.1:{NOWHERE}")
    counters.incr("a")
    with caplog.at_level(logging.WARNING, "redis_counters"), pytest.raises(Unavailable) as raised:
        counters.close(timeout=0.123456)
    lines = [record.getMessage() for record in caplog.records] + [str(raised.value)]
    assert len(lines) > 1
    assert [line for line in lines if ".;" in line] == []
    assert "after 0.12 s" in str(raised.value)


def test_a_traceback_tells_it_once() -> None:
    """Reading asks twice where Redis is away; what Python shows of that is the second attempt alone."""
    with Counters.from_url(f"redis://127.0.0.1:{NOWHERE}") as counters, pytest.raises(Unavailable) as raised:
        counters.get("a")
    shown = "".join(traceback.format_exception(raised.value))
    assert shown.count("redis.exceptions.ConnectionError: ") == 1


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("face", ["blocking", "asyncio"])
def test_no_password_where_one_is_needed(private_server: RealServer, face: str, protocol: int) -> None:
    """It is said first what is missing, whichever of the ways Redis and redis-py have of saying it."""
    with redis.Redis.from_url(private_server.url) as client:
        client.config_set("requirepass", "sesame")
    url = f"{private_server.url}?protocol={protocol}"

    async def main() -> None:
        async with redis_counters.asyncio.Counters.from_url(url) as counters:
            await counters.get("a")

    def ask() -> None:
        with Counters.from_url(url) as counters:
            counters.get("a")

    with pytest.raises(NotPermitted, match=r"^Redis does not accept the connection without a password: redis://"):
        asyncio.run(main()) if face == "asyncio" else ask()


def test_what_is_inside_of_us_is_not_told(private_server: RealServer) -> None:
    """Which line of which script it was; and of a follower it is said where to go."""
    client = private_server.client()
    for setting, expected in (
        ("maxmemory", r"^not all .*: namespace_open: OOM command not allowed when used memory > 'maxmemory'; kept"),
        ("replicaof", r"READONLY You can't write against a read only replica; connect to the primary; kept"),
    ):
        with Counters.from_url(private_server.url) as counters:
            if setting == "maxmemory":
                client.config_set("maxmemory", 1)
            else:
                client.replicaof("127.0.0.1", "1")
            counters.incr("a")
            until(lambda: counters.stats().failures, "it was tried to flush")
            with pytest.raises(Unavailable, match=expected):
                counters.flush(0.2)
            client.config_set("maxmemory", 0)
            client.replicaof("NO", "ONE")
