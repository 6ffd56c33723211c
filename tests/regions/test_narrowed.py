"""A counter that was given fewer shards before its namespace joined others counts once, in all regions."""

from __future__ import annotations

import pytest

from redis_counters import Counters
from redis_counters.protocol.wire.keys import KeySpace
from tests.regions.support import Regions

NAME = "n"
KEYS = KeySpace(b"rc", 16)


def shard_key(shard: int) -> bytes:
    return KEYS.shard_key(NAME.encode(), shard)[1]


def narrowed(here: Regions, *, grown: int | None) -> None:
    """In eu it had four shards, of which the last held 10; ``grown``: that was opened again, and counted in since."""
    here.incr("eu", NAME, 7)
    here.flush()
    client = here.client("eu")
    client.hset(shard_key(0), mapping={"s.3.old00.7+": 10, "z": "old00.9:1", "o": 1})
    if grown is None:
        client.set(shard_key(3), "sealed old00.9 1700000000 old00.7 10 0")
    else:
        client.hset(shard_key(0), mapping={"k": 4, "z": "-"})
        client.hset(shard_key(3), mapping={"d": "old00.7", "+": 10, "old00.8.abcd+": grown})
    here.truth[NAME] += 10 + (grown or 0)


def count_in_last_shard(here: Regions, region: str) -> None:
    """Some process of that region has counted in the shard that was copied."""
    client, url = here.client(region), here.servers[region].url
    before = client.hgetall(shard_key(3)) if client.type(shard_key(3)) == b"hash" else {}
    for _ in range(200):
        with Counters.from_url(url) as counters:
            counters.counter(NAME, shards=4).incr()
            here.truth[NAME] += 1
        if client.type(shard_key(3)) == b"hash" and client.hgetall(shard_key(3)) != before:
            return
    raise AssertionError("no process counts in the last of four shards")


@pytest.mark.every(4, "a second each")
@pytest.mark.parametrize("grown", [None, 0, 5])
@pytest.mark.parametrize("region", ["eu", "us"])
def test_it_counts_once(two: Regions, grown: int | None, region: str) -> None:
    """Sealed or opened again; and after it is counted there, by processes of either region."""
    narrowed(two, grown=grown)
    assert two.read(NAME) == {"eu": two.truth[NAME], "us": 0}
    exchange = two.exchange()
    exchange.run_once()
    assert two.wrong() == []
    count_in_last_shard(two, region)
    two.flush()
    for _ in range(2):
        exchange.run_once()
        assert two.wrong() == []
    two.counters["us"].reset(NAME)
    two.truth[NAME] = 0
    exchange.run_once()
    count_in_last_shard(two, region)
    exchange.run_once()
    assert two.wrong() == []
    exchange.close()
