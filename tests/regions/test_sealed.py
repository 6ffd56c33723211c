"""A shard that was about to go (see `resharding`) when its region joined, and that another region counts in."""

from __future__ import annotations

from typing import Any

import pytest

from redis_counters import Counters
from redis_counters.protocol.commands import Command, Script
from redis_counters.protocol.keys import KeySpace
from tests.regions.support import Regions


@pytest.mark.parametrize("compared", [False, True], ids=["pulled", "compared"])
def test_it_takes_counts_again(two: Regions, compared: bool) -> None:
    """It is told of by shard 0 first, so that readers find it; what it held still counts."""
    keys = KeySpace(b"rc", 16)
    exchange = two.exchange()
    with Counters.from_url(two.urls["us"]) as us:
        us.incr("hot", 1)
    places: Any = exchange._places
    there = places.places["us"].transport
    sealed = [keys.shard_key(b"hot", shard)[1] for shard in range(1, 4)]
    if not compared:
        exchange.run_once()  # (in a region that has joined nothing is sealed any more)
    answers = there.ask([Command(Script.SHARD_SEAL, (key,), (b"gen00.7",)) for key in sealed])
    assert [answer[0] for answer in answers] == [b"OK"] * 3
    for _ in range(4):  # each process writes to one shard, by chance
        with Counters.from_url(two.urls["eu"]) as eu:
            hot = eu.counter("hot", shards=4)
            hot.incr(5)
    two.truth["hot"] = 21
    exchange.run_once()
    exchange.run_once()
    assert two.read("hot") == {"eu": 21, "us": 21}
    assert exchange.stats().pairs["eu", "us"].refused == 0
    exchange.close()


def test_another_type_in_its_place_is_told(two: Regions) -> None:
    """A key of something else keeps one counter from being merged, and no other; it is tried again."""
    two.incr("eu", "a", 5)
    two.incr("eu", "b", 5)
    two.flush()
    key = KeySpace(b"rc", 16).shard_key(b"a", 0)[1]
    two.client("us").rpush(key, "somebody's")
    exchange = two.exchange()
    exchange.run_once()
    pair = exchange.stats().pairs["eu", "us"]
    assert pair.refused > 0
    assert "WRONGTYPE" in (pair.last_error or "")
    assert two.counters["us"].get("b", max_age=0) == 5
    two.client("us").delete(key)
    exchange.run_once()
    assert two.wrong() == []
    exchange.close()
