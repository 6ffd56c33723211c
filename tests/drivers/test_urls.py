"""A URL is accepted, or refused at once in words that do not repeat any of it."""

from __future__ import annotations

import pytest
import redis

from redis_counters import Counters, UsageError
from redis_counters.asyncio import Counters as AsyncioCounters
from tests.servers import RealServer

WRONG = [
    "localhost:6379",
    "http://localhost",
    "redis://localhost:port",
    "redis://user:sup3r/secret@localhost:6379/0",
    "redis://user:sup3r#secret@localhost:6379/0",
    "redis://localhost:6379/abc",
    "redis://localhost:6379/0?db=zz",
    "redis://localhost:6379/0?foo=bar",
    "redis://user:sup3r@localhost:6379/0?protocol=9",
    "embedded://somewhere",
]


@pytest.mark.parametrize("url", WRONG)
@pytest.mark.parametrize("face", [Counters, AsyncioCounters])
def test_a_wrong_url_is_refused_at_once(face: type[Counters | AsyncioCounters], url: str) -> None:
    """Nothing of a password shows, not even where it is what makes the URL wrong."""
    with pytest.raises(UsageError) as refused:
        face.from_url(url)
    assert "sup3r" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_scheme_may_be_in_capitals(any_server: RealServer) -> None:
    """As in any URL."""
    with Counters.from_url(any_server.url.replace("redis", "REDIS")) as counters:
        counters.incr("x")
        assert counters.get("x") == 1


def test_a_pipeline_is_no_client(any_server: RealServer) -> None:
    """It has a pool, but it collects commands instead of answering them."""
    with redis.Redis(port=any_server.port) as client, pytest.raises(UsageError, match="Pipeline"):
        Counters(client.pipeline())


def test_one_name_is_not_many(any_server: RealServer) -> None:
    """A str is an iterable of str: taken for one, it would be read letter by letter."""
    with Counters.from_url(any_server.url) as counters, pytest.raises(TypeError, match="names must be an iterable"):
        counters.get_many("abc")
