"""What a client is told where no Sentinel names a primary: which of them said what, and nothing of passwords."""

from __future__ import annotations

from typing import Any

import pytest
import redis.asyncio.sentinel
import redis.sentinel

from redis_counters import NotPermitted, Unavailable
from redis_counters.drivers.redis_py.errors import translate

OPTIONS = "db=0,username=u53r,password=sup3r,retry=<redis.retry.Retry object at 0x7f40>,host=127.0.0.1,port={}"
# As versions of redis-py show a client: 5.0, 5.2, 6.4 and 7.1.
SHOWN = [
    "Redis<ConnectionPool<Connection<host=127.0.0.1,port={},db=0>>>",
    "<redis.client.Redis(<redis.connection.ConnectionPool(<redis.connection.Connection(host=127.0.0.1,port={})>)>)>",
    f"<redis.client.Redis(<redis.connection.ConnectionPool(<redis.connection.Connection({OPTIONS})>)>)>",
]
REFUSED = "Error 111 connecting to 127.0.0.1:{}. Connection refused."


@pytest.mark.parametrize("shown", SHOWN)
@pytest.mark.parametrize("module", [redis.sentinel, redis.asyncio.sentinel])
def test_what_the_sentinels_said(shown: str, module: Any) -> None:
    """One is gone, the other knows of no such service; redis-py shows all options of its clients of Sentinels."""
    gone = f"{shown.format(1)} - ConnectionError('{REFUSED.format(1)}')"
    slow = f"{shown.format(3)} - network:TimeoutError"  # of redis-py 8
    also = f'{shown.format(2)} - TimeoutError("it\'s {REFUSED.format(2)}")'
    error = translate(module.MasterNotFoundError(f"No master found for 'counted' : {gone}, {also}, {slow}"))
    assert isinstance(error, Unavailable)
    assert str(error) == (
        "Redis is not reachable: no Sentinel names a primary of 'counted': "
        f"{REFUSED.format(1)[:-1]}; it's {REFUSED.format(2)[:-1]}; TimeoutError"
    )


@pytest.mark.parametrize("shown", SHOWN)
def test_sentinels_that_ask_for_a_password(shown: str) -> None:
    """It is not the password of Redis that is wrong, and waiting does not help."""
    said = [f"{shown.format(n)} - AuthenticationError('Authentication required.')" for n in range(2)]
    said.append(f"{shown.format(3)} - auth:AuthenticationError")
    error = translate(redis.sentinel.MasterNotFoundError(f"No master found for 'counted' : {', '.join(said)}"))
    assert isinstance(error, NotPermitted)
    assert "sentinel_password" in str(error)
    assert "sup3r" not in str(error)
    said.append(f"{shown.format(4)} - ConnectionError('Connection refused')")  # that one may know, when it is back
    error = translate(redis.sentinel.MasterNotFoundError(f"No master found for 'counted' : {', '.join(said)}"))
    assert isinstance(error, Unavailable)


def test_words_that_nobody_knows() -> None:
    """Another version's words may hold anything: only what is known to hold no option is told."""
    error = translate(redis.sentinel.MasterNotFoundError("No master found for 'counted' : at redis://u:sup3r@host"))
    assert str(error) == "Redis is not reachable: no Sentinel names a primary of 'counted'"
    error = translate(redis.sentinel.MasterNotFoundError("sup3r"))
    assert str(error) == "Redis is not reachable: no Sentinel names a primary"
