"""What it costs: a quiet pair of regions says little, in simulated hours; what is compared is found and repaired."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from redis_counters import Unavailable
from redis_counters.drivers.exchange.places import RegionClients
from redis_counters.drivers.exchange.sessions import drive
from redis_counters.protocol.exchange.heartbeats import beats_in
from redis_counters.protocol.exchange.pair import Pair
from tests.faces.either import commandstats, reset_stats
from tests.regions.support import Regions, fields, is_of_another
from tests.servers import RealServer

MINUTE = 60.0


class Simulated:
    """Both directions between two regions, driven by hand, with a clock that jumps to what is due next."""

    def __init__(self, here: Regions) -> None:
        self.now = 1000.0
        exchange = here.exchange(interval=0.2)
        self.places: RegionClients[object] = exchange._places
        options = self.places.common.options
        self.places.common.options = replace(options, clock=lambda: self.now, rng=lambda: 0.5)
        self.pairs = {link: Pair(link[0].encode(), link[1].encode(), self.places.common) for link in self.places.pairs}
        self.places._share_out(self.pairs)
        self.stack = ExitStack()
        self.lanes = {
            link: [
                self.stack.enter_context(self.places.places[name].transport.lane())  # type: ignore[attr-defined]
                for name in link
            ]
            for link in self.pairs
        }
        for link, pair in self.pairs.items():
            drive(pair.connect(), self.lanes[link], link)
        self.exchange = exchange

    def run(self, seconds: float) -> None:
        """So much time passes."""
        end = self.now + seconds
        while True:
            link = min(self.pairs, key=lambda each: self.pairs[each].wait())
            due = self.now + self.pairs[link].wait()
            if due > end:
                self.now = end
                return
            self.now = max(due, self.now + 0.001)
            drive(self.pairs[link].round(), self.lanes[link], link)
            assert self.pairs[link].error is None

    def close(self) -> None:
        self.stack.close()
        self.exchange.close()


@pytest.fixture
def simulated(two: Regions) -> Iterator[Simulated]:
    for n in range(500):
        two.incr("eu", f"likes:{n}")
        two.incr("us", f"likes:{n}")
    two.flush()
    found = Simulated(two)
    yield found
    found.close()


def traffic(server: RealServer) -> int:
    """Return the bytes that a server has received and sent, without what asking for it costs."""
    client = server.client()
    first, second = (client.info("stats") for _ in range(2))
    told = [each["total_net_input_bytes"] + each["total_net_output_bytes"] for each in (first, second)]
    return int(told[0] - (told[1] - told[0]))


def test_a_quiet_pair_says_little(two: Regions, simulated: Simulated) -> None:
    """Less than 1 kB a minute and bucket in both directions, comparing included; our own figure of it is right."""
    simulated.run(30)
    assert two.wrong() == []
    for counters in two.counters.values():
        counters.close()
    before = sum(map(traffic, two.servers.values()))
    counted = sum(pair.stats().bytes for pair in simulated.pairs.values())
    minutes = 30
    simulated.run(minutes * MINUTE)
    said = sum(map(traffic, two.servers.values())) - before
    counted = sum(pair.stats().bytes for pair in simulated.pairs.values()) - counted
    print(f"{said / minutes / 16:.0f} bytes a minute and bucket, {counted / minutes / 16:.0f} by our own figure")
    assert said / minutes / 16 < 1000
    assert abs(said - counted) < 0.05 * said
    assert [pair.stats().lag for pair in simulated.pairs.values()] == [0, 0], "nothing is lacking"


def test_heartbeats_say_when_the_next_is_to_be_expected(two: Regions, simulated: Simulated) -> None:
    """None after what runs once; after the first of regular rounds one at once, or it would be missed meanwhile."""

    def expected() -> set[int]:
        clients: list[Any] = [two.client(region) for region in two.servers]
        marks = [client.hgetall("{rc:0}:m") for client in clients]
        return {beat.every for each in marks for beat in beats_in(each)}

    for link, pair in simulated.pairs.items():
        drive(pair.pull_all(set()), simulated.lanes[link], link)
    assert expected() == {0}
    simulated.run(5)
    assert expected() == {60_000}


@pytest.mark.slow("seconds of silence")
def test_what_is_lost_is_found_by_comparing(two: Regions, simulated: Simulated) -> None:
    """Keys that somebody deletes come back within a cycle, of an hour here, though nothing tells of them."""
    simulated.run(30)
    client = two.client("eu")
    for n in (3, 77, 401):
        assert client.delete(*client.scan_iter(f"*:c:0:likes:{n}")) == 1
    assert len(two.wrong()) == 3
    simulated.run(75 * MINUTE)
    assert two.wrong() == []
    repaired = sum(pair.stats().repaired for pair in simulated.pairs.values())
    assert repaired >= 3


@pytest.mark.slow("seconds of silence")
def test_a_change_after_hours_is_found_soon(two: Regions, simulated: Simulated) -> None:
    """However long nothing changed: it takes ten seconds at most."""
    simulated.run(120 * MINUTE)
    two.incr("eu", "likes:3", 5)
    two.incr("us", "new", 5)
    two.flush()
    simulated.run(10.1)
    assert two.wrong() == []


@pytest.mark.slow("seconds of silence")
def test_what_was_deleted_is_dropped_soon(two: Regions, simulated: Simulated) -> None:
    """Though nothing changes afterwards: receipts are given, which a look at the version alone does not give."""
    simulated.run(120 * MINUTE)
    for n in range(20):
        two.counters["eu"].delete(f"likes:{n}")
        two.truth[f"likes:{n}"] = 0
    simulated.run(8 * MINUTE)
    assert two.wrong() == []
    for region in ("eu", "us"):
        deleted = [fields(two.servers[region], f"likes:{n}") for n in range(20)]
        assert all(deleted)
        assert not any(map(is_of_another, itertools.chain(*deleted)))


def test_what_a_later_member_has_not_heard_of_is_not_dropped(three: Regions) -> None:
    """It joined when the others were connected already, and away when something is deleted: it stays away."""
    urls = three.urls
    for n in range(20):
        for region in urls:
            three.incr(region, f"likes:{n}")
    three.flush()
    three.urls = {name: url for name, url in urls.items() if name != "ap"}
    simulated = Simulated(three)
    simulated.run(30)
    three.urls = urls
    three.exchange().run_once()
    assert three.wrong() == []
    for n in range(20):
        three.counters["eu"].delete(f"likes:{n}")
        three.truth[f"likes:{n}"] = 0
    simulated.run(60 * MINUTE)
    simulated.close()
    three.exchange().run_once()
    assert three.wrong() == []


@pytest.mark.slow("seconds of silence")
def test_a_return_is_seen_soon(two: Regions, simulated: Simulated) -> None:
    """Another process evicts a region, and adds it again: it is told at once what it forgot, though nothing changed."""
    simulated.run(61 * MINUTE)  # (a bucket is looked at in earnest every four)
    other = two.exchange()
    other.evict("us")
    other.add_regions({"us": two.urls["us"]})
    other.close()
    assert len(two.wrong()) == 500
    simulated.run(20.1)
    assert two.wrong() == []


@pytest.mark.slow("seconds of silence")
def test_what_another_exchange_has_brought_is_not_asked_for_again(two: Regions, simulated: Simulated) -> None:
    """Once it came too late with something, an exchange looks first how far others have got."""
    other = Simulated(two)
    for pair in other.pairs.values():
        pair.compares = False
    other.run(30)
    told = []
    for _ in range(5):
        two.incr("eu", "likes:3")
        two.flush()
        simulated.run(11)
        reset_stats(two.servers["eu"])
        other.run(11)
        told.append(commandstats(two.servers["eu"]).get("hgetall", 0))
    other.close()
    assert told == [1, 0, 0, 0, 0], "what the source told it"
    assert two.wrong() == []


def test_a_lag_is_how_long_something_may_have_been_lacking(two: Regions, simulated: Simulated) -> None:
    """None while all is looked at in time, however seldom; what is not looked at any more may lack something."""
    for _ in range(7):
        simulated.run(7)
        assert [pair.stats().lag for pair in simulated.pairs.values()] == [0, 0]
    simulated.now += 60
    assert all(60 < (pair.stats().lag or 0) <= 71 for pair in simulated.pairs.values())
    bucket = simulated.pairs["eu", "us"].buckets[3]
    simulated.run(11)
    bucket.error = Unavailable("away")  # one of many
    bucket.caught_up = simulated.now - 5
    assert [round(pair.stats().lag or 0) for pair in simulated.pairs.values()] == [5, 0]


def test_a_lag_is_told_once_all_buckets_were_looked_at(two: Regions) -> None:
    exchange = two.exchange()
    assert exchange.stats().lag is None
    exchange.run_once()
    assert exchange.stats().lag is not None
    exchange.close()
