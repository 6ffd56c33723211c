"""Errors of an exchange: whose they are, and what they carry."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing
from typing import Any

import pytest

import redis_counters.asyncio
from redis_counters import Exchange, NotPermitted, WrongType
from redis_counters.cli.client import driven
from redis_counters.protocol.exchange.joining import renew
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.testing import LossyLink
from tests.regions.support import Regions


def spoilt(two: Regions) -> None:
    """A counter of one region is no counter there."""
    client: Any = two.client("us")
    client.rpush(KeySpace(b"rc", 16).shard_key(b"a", 0)[1], "somebody's")


def test_the_counter_and_the_region_are_named(two: Regions) -> None:
    spoilt(two)
    with closing(two.exchange()) as exchange, pytest.raises(WrongType, match=r"^region us: ") as raised:
        exchange.read_skew(["a"])
    assert raised.value.counter == b"a"


def test_the_counter_and_the_region_are_named_in_asyncio(two: Regions) -> None:
    spoilt(two)

    async def main() -> None:
        async with redis_counters.asyncio.Exchange(two.urls) as exchange:
            with pytest.raises(WrongType, match=r"^region us: ") as raised:
                await exchange.read_skew(["a"])
            assert raised.value.counter == b"a"

    asyncio.run(main())


def test_of_no_counters_nothing_is_asked(two: Regions) -> None:
    with closing(two.exchange()) as exchange:
        two.servers["us"].kill()
        assert exchange.read_skew([]) == {}

    async def main() -> None:
        exchange = redis_counters.asyncio.Exchange(two.urls)
        assert await exchange.read_skew([]) == {}
        await exchange.close()

    asyncio.run(main())


def test_what_are_no_regions_is_refused_alike(two: Regions) -> None:
    """When the exchange is made, and when some are added."""
    what: Any = [("us", two.urls["us"])]
    with pytest.raises(TypeError, match="must be a mapping"):
        Exchange(what)
    with closing(two.exchange()) as exchange, pytest.raises(TypeError, match="must be a mapping"):
        exchange.add_regions(what)


def test_who_may_not_connect_is_named(two: Regions) -> None:
    """Of two regions whose users differ, it is told which one denies something."""
    client: Any = two.client("us")
    client.execute_command("ACL", "SETUSER", "weak", "on", ">pw", "~*", "+@all", "-hset")
    urls = {**two.urls, "us": two.urls["us"].replace("://", "://weak:pw@")}
    with closing(Exchange(urls)) as exchange, pytest.raises(NotPermitted, match=r"^region us: "):
        exchange.run_once()


def test_the_counter_that_cannot_be_renewed_is_named(two: Regions) -> None:
    """Else nobody would know which of all keys is in the way."""
    with closing(two.exchange()) as exchange:
        exchange.run_once()
        spoilt(two)
        place = exchange._places.places["us"]
        with pytest.raises(WrongType, match="'a'") as raised:
            driven(place.transport, renew(KeySpace(b"rc", 16), b"newer"))
        assert raised.value.counter == b"a"


def test_what_is_over_is_not_told_any_more(two: Regions) -> None:
    """A region that could not be reached at first has caught up when `run_once` returns: then nothing is wrong."""
    two.incr("eu", "a")
    two.flush()
    with LossyLink(two.urls["us"]) as link:
        link.stop()
        back = threading.Timer(0.05, link.start)
        back.start()
        with closing(Exchange({"eu": two.urls["eu"], "us": link.url})) as exchange:
            stats = exchange.run_once()
        back.join()
    assert two.wrong() == []
    assert stats.failures > 0
    assert [pair.last_error for pair in stats.pairs.values()] == [None, None]
