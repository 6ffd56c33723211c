"""A shard that was about to go (see `reshard`) when its region joined, and that another region counts in."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from redis_counters import Counters, Event, EventKind
from redis_counters.protocol.wire.commands import Command, Script
from redis_counters.protocol.wire.keys import KeySpace
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
    events: list[Event] = []
    exchange = two.exchange(observer=events.append)
    exchange.run_once()
    pair = exchange.stats().pairs["eu", "us"]
    assert pair.refused > 0
    said = f"counter 'a': the key {key.decode()!r} holds something else: WRONGTYPE"
    assert (pair.last_error or "").startswith(said)
    refused = [event.message for event in events if event.kind is EventKind.REFUSED]
    assert all(said in message for message in refused)
    assert len(refused) == len(set(refused)) > 0
    assert two.counters["us"].get("b", max_age=0) == 5
    two.client("us").delete(key)
    exchange.run_once()
    assert two.wrong() == []
    exchange.close()


@pytest.mark.parametrize("compared", [False, True], ids=["pulled", "compared"])
@pytest.mark.parametrize("field", ["@ap/gen.1+", "~@ap/gen.1-", "@ap/gen 1+", "@ap/gen,1+", "@/gen.9+", "somebody's+"])
@pytest.mark.every(5, "seconds each")
@pytest.mark.parametrize("spoilt", ["eu", "us"])
def test_a_field_that_is_no_count_keeps_one_entry_back(two: Regions, spoilt: str, field: str, compared: bool) -> None:
    """All others of the shard are exchanged, in both directions; it is told once, with the counter's name."""
    events: list[Event] = []
    with closing(two.exchange(observer=events.append)) as exchange:
        for name in ("a", "b"):
            two.incr("eu", name, 5)
            two.incr("us", name, 7)
        two.flush()
        exchange.run_once()
        client: Any = two.client(spoilt)
        (key,) = client.keys("*:c:0:a")
        client.hset(key, field, "else")
        for name in ("a", "b"):
            two.incr("eu", name, 10)
            two.incr("us", name, 20)
        two.flush()
        if compared:  # nothing tells of the changes any more
            each: Any
            for each in map(two.client, two.urls):
                for index in each.keys("*:x*"):
                    for member in each.zrangebyscore(index, 1, "+inf"):
                        each.execute_command("ZADD", index, 1, member)
        exchange.run_once()
        other = "us" if spoilt == "eu" else "eu"
        assert two.read("b") == {"eu": 42, "us": 42}
        assert exchange.stats().pairs["eu", "us"].refused + exchange.stats().pairs["us", "eu"].refused > 0
        refused = [event.message for event in events if event.kind is EventKind.REFUSED]
        assert len(refused) == len(set(refused)) > 0
        assert all("counter 'a': ERR" in message for message in refused)
        own = field == "somebody's+"  # then it is not known how much was counted there
        assert two.counters[other].get("a", max_age=0) == (42 - (10 if spoilt == "eu" else 20) if own else 42)
        client.hdel(key, field)
        exchange.run_once()
        assert two.wrong() == []
