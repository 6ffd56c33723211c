"""Real servers of different kinds come to the same counts, whichever way they are linked, whoever is in the way."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import time
from collections.abc import Sequence

import pytest

import redis_counters.asyncio
from redis_counters import Counters, Event, EventKind, Exchange, SchemaMismatch, Unavailable
from redis_counters.protocol.exchange.members import Region
from redis_counters.protocol.exchange.state import Common
from redis_counters.testing import LossyLink
from tests.regions.support import MESH, RING, STAR, Regions
from tests.waiting import until

TOPOLOGIES = {"mesh": MESH, "star": STAR, "ring": RING}


def count(here: Regions, names: int, rng: random.Random, times: int = 300) -> None:
    """Counted up and down, in all regions."""
    for _ in range(times):
        here.incr(rng.choice(list(here.counters)), f"n{rng.randrange(names)}", rng.choice((1, 2, 50, -3)))
    here.flush()


@pytest.mark.parametrize("links", TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_once(three: Regions, links: Sequence[tuple[str, str]] | None) -> None:
    """All regions have all counts afterwards; again, with more counts, and nothing at all."""
    rng = random.Random(1)
    with_once = three.exchange(links=links)
    for _ in range(3):
        count(three, 40, rng)
        with_once.run_once()
        assert three.wrong() == []
    before = with_once.stats()
    after = with_once.run_once()
    assert sum(pair.changed for pair in after.pairs.values()) == sum(pair.changed for pair in before.pairs.values())
    assert after.failures == 0
    assert set(with_once.read_skew(three.truth).values()) == {0}
    with_once.close()


@pytest.mark.parametrize("links", TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_in_the_background(three: Regions, links: Sequence[tuple[str, str]] | None) -> None:
    """Counts arrive while others are made; the figures say so."""
    rng = random.Random(2)
    with three.exchange(links=links) as exchange:
        for _ in range(10):
            count(three, 20, rng, times=50)
        three.equal()
        until(lambda: exchange.stats().lag is not None, "all pairs have caught up")
        stats = exchange.stats()
        assert stats.failures == 0, stats
        assert stats.entries > 0
        assert all(pair.bytes > 0 for pair in stats.pairs.values())


def test_asyncio(three: Regions) -> None:
    """The same, by tasks."""

    async def main() -> None:
        async with redis_counters.asyncio.Exchange(three.urls, interval=0.02) as exchange:
            count(three, 20, random.Random(3))
            await asyncio.to_thread(three.equal)
            assert exchange.stats().failures == 0
            assert set((await exchange.read_skew(three.truth)).values()) == {0}
            assert {region.state for region in (await exchange.regions()).values()} == {"member"}
            count(three, 20, random.Random(4))
            await exchange.run_once()
            assert three.wrong() == []

    asyncio.run(main())


def test_what_was_there_before(two: Regions) -> None:
    """Counters that were counted before there was any exchange take part, all of them."""
    for n in range(3000):
        two.incr("eu" if n % 3 else "us", f"old{n}", n + 1)
    two.flush()
    exchange = two.exchange()
    exchange.run_once()
    assert two.wrong() == []
    exchange.close()


@pytest.mark.slow("several exchanges")
def test_several_at_once(three: Regions) -> None:
    """Any number of exchanges may run: nothing is counted twice, nothing is missed."""
    exchanges = [three.exchange(interval=0.005 * (n + 1)) for n in range(4)]
    try:
        for exchange in exchanges:
            exchange.start()
        for n in range(6):
            count(three, 15, random.Random(n), times=60)
        three.equal()
    finally:
        for exchange in exchanges:
            exchange.close()
    three.exchange().run_once()
    assert three.wrong() == []


def test_a_region_that_is_down_delays_nothing(three: Regions) -> None:
    """A server that does not answer (its machine hangs) keeps nothing from the others; it catches up later."""
    events: list[Event] = []
    three.waited_for("ap")
    with three.exchange(observer=events.append) as exchange:
        count(three, 10, random.Random(5))
        three.equal()
        three.servers["ap"].pause()
        try:
            three.incr("eu", "hot", 5)
            three.counters["eu"].flush()
            until(lambda: three.counters["us"].get("hot", max_age=0) == 5, "the other two go on")
        finally:
            three.servers["ap"].resume()
        three.counters.pop("ap").close()
        three.servers["ap"].kill()
        until(lambda: any(e.kind is EventKind.EXCHANGE_FAILED for e in events), "somebody is told")
        three.incr("us", "hot", 2)
        three.counters["us"].flush()
        until(lambda: three.counters["eu"].get("hot", max_age=0) == 7, "the other two go on")
        until(lambda: exchange.stats().pairs["eu", "ap"].failures > 0, "it is counted")
        assert "ap" in (exchange.stats().pairs["eu", "ap"].last_error or "")
        with pytest.raises(Unavailable, match="ap"):
            exchange.run_once(timeout=20)


def test_another_reason_is_told_too(two: Regions) -> None:
    """A region is away, and comes back empty: why it may not take part then is told, though it failed before."""
    events: list[Event] = []

    def told(what: str) -> bool:
        """By both pairs."""
        failed = [e.message for e in events if e.kind is EventKind.EXCHANGE_FAILED and what in e.message]
        return {message.partition(":")[0] for message in failed} == {"eu to us", "us to eu"}

    with two.exchange(observer=events.append):
        two.incr("us", "hot")
        two.equal()
        two.counters.pop("us").close()
        two.servers["us"].kill()
        until(lambda: told("not reachable"), "it is told that it is away")
        two.servers["us"].restart()
        until(lambda: told("another deployment"), "it is told that it is another one")
        seen = len(events)
        time.sleep(2)  # several attempts
        assert len(events) == seen


def test_lossy_links(two: Regions) -> None:
    """Replies and requests are lost, or come twice, again and again: the counts are exact."""
    with LossyLink(two.servers["eu"].url) as eu, LossyLink(two.servers["us"].url) as us:
        two.urls = {"eu": eu.url, "us": us.url}
        exchange = two.exchange()
        count(two, 50, random.Random(6))
        exchange.run_once()
        for n, link in enumerate((eu, us)):
            link.drop_reply(probability=0.04, seed=n)
            link.cut_before(probability=0.02, seed=10 + n)
            link.duplicate(probability=0.1, seed=20 + n)
        with exchange:
            rounds = 0

            def count_on() -> None:
                nonlocal rounds
                rounds += 1
                count(two, 50, random.Random(10 + rounds), times=60)

            until(
                lambda: rounds >= 10 and eu.dropped + us.dropped and eu.cut + us.cut,
                "replies were lost, and connections cut",
                count_on,
            )
            two.equal()
        eu.heal()
        us.heal()


def test_a_partition(two: Regions) -> None:
    """Each side counts for itself, by hundreds of thousands; the skew rises, and is 0 when they have met again."""
    increments = {"eu": 200_000, "us": 150_000}
    names = [f"n{n}" for n in range(500)]
    with LossyLink(two.servers["us"].url) as link:
        two.urls = {"eu": two.servers["eu"].url, "us": link.url}
        with two.exchange() as exchange:
            two.incr("eu", "n0")
            two.flush()
            two.equal()
            link.stop()
            for region, counters in two.counters.items():
                for n in range(increments[region]):
                    counters.incr(names[n % 500])
            for name in names:
                two.truth[name] = two.truth.get(name, 0) + 400 + 300
            two.flush()
            assert two.read("n1") == {"eu": 400, "us": 300}
            reader = Exchange({name: server.url for name, server in two.servers.items()})
            assert set(reader.read_skew(names).values()) == {100}
            reader.close()
            link.start()
            two.equal()
            assert set(exchange.read_skew(names).values()) == {0}


def test_names_are_bound(two: Regions, three: Regions) -> None:
    """Two deployments cannot count under one name; a deployment keeps its name; the way out is told."""
    eu, us, other = two.urls["eu"], two.urls["us"], three.urls["ap"]
    two.incr("eu", "a")
    two.flush()
    Exchange({"eu": eu, "us": us}).run_once()
    with pytest.raises(SchemaMismatch, match=r"another deployment.*new name"):
        Exchange({"eu": eu, "us": other}).run_once()
    with pytest.raises(SchemaMismatch, match="takes part as 'us' already"):
        Exchange({"eu": eu, "ap": us}).run_once()
    with pytest.raises(SchemaMismatch, match="takes part as 'eu' already"):
        Exchange({"eu": eu, "eu2": eu}).run_once()
    assert two.wrong() == []


def test_two_exchanges_meet_a_new_region(two: Regions, monkeypatch: pytest.MonkeyPatch) -> None:
    """One has looked at it before it joined, and at its peer afterwards: the name is not another deployment's."""
    late, other = two.exchange(links=[("us", "eu")]), two.exchange()
    saw, met = Common.saw, 0

    def slowly(common: Common, name: bytes, region: Region | None) -> None:
        nonlocal met
        saw(common, name, region)
        if common is late._places.common and region is not None and region.id is None:
            met += 1
            other.run_once()

    monkeypatch.setattr(Common, "saw", slowly)
    late.run_once()
    assert met
    late.close()
    other.close()


def test_other_numbers_of_buckets_are_refused(two: Regions) -> None:
    """Regions of one count have the same number of buckets; a new one takes that of the others."""
    with Counters.from_url(two.urls["eu"], namespace="x", buckets=4) as counters:
        counters.incr("a", 3)
    exchange = two.exchange(namespace="x")
    exchange.run_once()
    with Counters.from_url(two.urls["us"], namespace="x") as counters:
        assert counters.get("a", max_age=0) == 3
    assert {region.buckets for region in exchange.regions().values()} == {4}
    exchange.close()
    for region, buckets in (("eu", 4), ("us", 8)):
        with Counters.from_url(two.urls[region], namespace="y", buckets=buckets) as counters:
            counters.incr("a")
    with pytest.raises(SchemaMismatch, match="buckets"):
        two.exchange(namespace="y").run_once()


def test_close_is_quick(two: Regions) -> None:
    """Closing waits for nothing but what is on its way, and not until it would look again; no thread is left."""
    before = threading.active_count()
    exchange = two.exchange(interval=600)
    exchange.start()
    until(lambda: exchange.stats().lag is not None, "it runs")
    exchange.close()
    until(lambda: threading.active_count() <= before, "no thread is left")
    exchange.close()
    with pytest.raises(Unavailable, match="closed"):
        exchange.start()


def test_one_that_nobody_holds_ends(two: Regions) -> None:
    """Its threads do, soon after it was let go of without being closed."""
    before = threading.active_count()
    exchange = two.exchange()
    exchange.start()
    assert threading.active_count() > before
    del exchange
    gc.collect()
    until(lambda: threading.active_count() <= before, "no thread is left")


def test_regions_that_nobody_asks_are_not_waited_for(three: Regions) -> None:
    """New ones get their buckets though a third, which no link leads to, was not looked at."""
    exchange = three.exchange(links=[("eu", "us")], namespace="new")
    exchange.run_once(timeout=30)
    states = {name: region.state for name, region in exchange.regions().items()}
    assert states == {"eu": "member", "us": "member", "ap": "unknown"}
    exchange.close()
