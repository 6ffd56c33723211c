"""Pairs and Sentinels do what their names say, on every kind of server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis
import redis.sentinel

from tests.servers import Kind
from tests.topologies import WATCHED, Pair, Sentinels

pytestmark = pytest.mark.slow("pairs of servers")


@pytest.fixture
def pair(kind: Kind) -> Iterator[Pair]:
    pair = Pair(kind)
    yield pair
    pair.stop()


def found_by(sentinels: Sentinels) -> Any:
    sentinel: Any = redis.sentinel.Sentinel
    return sentinel(sentinels.addresses, socket_timeout=5)


def value(client: Any) -> Any:
    return client.get("x")


def test_a_follower_follows_and_can_be_left_behind(pair: Pair) -> None:
    """What was written while replication was paused is lost by the promotion, and after it on the old primary."""
    old: Any = pair.primary.client()
    old.set("x", "1")
    pair.caught_up()
    assert value(pair.follower.client()) == b"1"
    with pytest.raises(redis.ReadOnlyError):
        pair.follower.client().set("x", "2")
    pair.pause_replication()
    old.set("x", "2")
    pair.promote()
    assert value(pair.primary.client()) == b"1"
    assert value(old) == b"2"
    pair.follow()
    assert value(old) == b"1"
    with pytest.raises(redis.ReadOnlyError):
        old.set("x", "3")


@pytest.mark.parametrize("how", ["asked to", "killed"])
def test_sentinels_promote_the_follower(pair: Pair, how: str) -> None:
    """Asked to, with both healthy, or by themselves when the primary is killed: a client finds the new one."""
    sentinels = Sentinels(pair)
    try:
        finder = found_by(sentinels)
        with finder.master_for(WATCHED) as client:
            client.set("x", "1")
            pair.caught_up()
            before = pair.primary
            if how == "killed":
                before.kill()
                sentinels.wait()
            else:
                sentinels.fail_over()
            assert pair.primary is not before
            client.connection_pool.disconnect()
            assert client.get("x") == b"1"
            client.set("x", "2")
            assert value(pair.primary.client()) == b"2"
        for sentinel in finder.sentinels:
            sentinel.close()
    finally:
        sentinels.stop()
