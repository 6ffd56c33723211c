"""Who takes part: a region is evicted, comes back, is new; deletes and resets hold everywhere meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

import pytest

import redis_counters.asyncio
from redis_counters import Counters, Event, Exchange, Refused, SchemaMismatch, Unavailable, UsageError
from redis_counters.drivers.exchange.places import RegionClient
from redis_counters.protocol.wire.keys import DEFAULT_BUCKETS, KeySpace
from redis_counters.protocol.wire.marks import EVICTED as VOID
from redis_counters.protocol.wire.marks import field_of
from tests.faces.either import _awaited
from tests.regions.support import Regions, fields, is_of_another, regions
from tests.waiting import until


@pytest.mark.parametrize("face", ["blocking", "asyncio"])
def test_to_evict_a_region_is_no_failure(two: Regions, face: str) -> None:
    """Of the exchange that does it, and goes on meanwhile: nobody is told to evict the region again."""
    events: list[Event] = []
    us = {"us": two.urls["us"]}

    async def main() -> None:
        async with redis_counters.asyncio.Exchange(two.urls, interval=0.001, observer=events.append) as exchange:
            await exchange.run_once()
            for _ in range(5):
                await exchange.evict("us")
                await exchange.add_regions(us)

    if face == "asyncio":
        asyncio.run(main())
    else:
        with two.exchange(interval=0.001, observer=events.append) as exchange:
            exchange.run_once()
            for _ in range(5):
                exchange.evict("us")
                exchange.add_regions(us)
    assert events == []


@pytest.mark.parametrize("face", ["blocking", "asyncio"])
def test_to_give_a_region_another_client_is_no_failure(two: Regions, face: str) -> None:
    """Who works with the one before ends with it; the figures go on."""
    events: list[Event] = []
    us = {"us": two.urls["us"]}
    two.incr("eu", "a")
    two.flush()

    async def main() -> None:
        async with redis_counters.asyncio.Exchange(two.urls, interval=0.001, observer=events.append) as exchange:
            await exchange.run_once()
            for _ in range(5):
                await exchange.add_regions(us)
                await asyncio.sleep(0.1)
            assert exchange.stats().pairs["eu", "us"].entries > 0

    if face == "asyncio":
        asyncio.run(main())
    else:
        with two.exchange(interval=0.001, observer=events.append) as exchange:
            exchange.run_once()
            for _ in range(5):
                exchange.add_regions(us)
                time.sleep(0.1)
            assert exchange.stats().pairs["eu", "us"].entries > 0
    assert events == []


@pytest.mark.slow("three regions")
def test_an_evicted_region_comes_back(three: Regions) -> None:
    """What it had counted, and counts meanwhile, counts once; what others removed meanwhile stays removed."""
    for region in three.counters:
        three.incr(region, "kept", 10)
        three.incr(region, "reset", 10)
        three.incr(region, "deleted", 10)
    three.flush()
    exchange = three.exchange()
    exchange.run_once()
    assert three.wrong() == []

    exchange.evict("ap")
    status = exchange.regions()
    assert {name: each.state for name, each in status.items()} == {"eu": "member", "us": "member", "ap": "evicted"}
    assert status["ap"].recorded_by == ("ap", "eu", "us")
    for region in three.counters:
        three.incr(region, "kept", 1)
    three.flush()
    assert three.counters["eu"].reset("reset") == 30
    assert three.counters["eu"].delete("deleted") == 30
    for _ in range(4):  # until all of it is dropped: receipts come with the next look
        exchange.run_once()
    with pytest.raises(Refused, match=r"evicted.*leave it out.*regions add ap --region ap=URL"):
        three.exchange().run_once()
    assert three.counters["ap"].get("kept", max_age=0) == 31
    assert three.counters["us"].get("kept", max_age=0) == 32
    assert three.counters["us"].get("reset", max_age=0) == 0

    exchange.add_regions({"ap": three.urls["ap"]})
    exchange.run_once()
    three.truth.update(reset=0, deleted=0)
    assert three.wrong() == []
    for _ in range(3):
        exchange.run_once()
    assert three.wrong() == []
    assert {each.state for each in exchange.regions().values()} == {"member"}
    exchange.close()


@pytest.mark.slow("three regions")
def test_what_others_had_told_is_removed_where_one_returns(three: Regions) -> None:
    """Nothing is left there of others before it takes part again; its own counts stay."""
    for region in three.counters:
        three.incr(region, "a", 10)
    three.flush()
    exchange = three.exchange()
    exchange.run_once()
    assert any(map(is_of_another, fields(three.servers["ap"], "a")))
    exchange.evict("ap")
    only = Exchange({"ap": three.urls["ap"]})
    with pytest.raises(Unavailable, match=r"only if all members are told.*eu, us"):
        only.add_regions({"ap": three.urls["ap"]})
    assert three.counters["ap"].get("a", max_age=0) == 30
    three.servers["us"].pause()
    try:
        with pytest.raises(Unavailable, match="region us"):
            exchange.add_regions({"ap": three.urls["ap"]})
    finally:
        three.servers["us"].resume()
    exchange.add_regions({"ap": three.urls["ap"]}, links=[])
    assert not any(map(is_of_another, fields(three.servers["ap"], "a")))
    assert three.counters["ap"].get("a", max_age=0) == 10
    three.exchange().run_once()
    assert three.wrong() == []


@pytest.mark.slow("three regions")
def test_evicting_is_repeated_until_all_know(three: Regions) -> None:
    """A member that does not answer is named; the evicted one need not answer at all."""
    three.incr("eu", "a", 10)
    three.flush()
    exchange = three.exchange()
    exchange.run_once()
    for counters in (three.counters.pop("ap"), three.counters.pop("us")):
        counters.close()
    three.servers["ap"].kill()
    three.servers["us"].pause()
    try:
        with pytest.raises(Unavailable, match=r"not everywhere.*us: "):
            exchange.evict("ap")
    finally:
        three.servers["us"].resume()
    assert exchange.regions()["ap"].recorded_by == ("eu",)
    exchange.run_once()  # it spreads
    assert exchange.regions()["ap"].recorded_by == ("eu", "us")
    exchange.evict("ap")
    with pytest.raises(UsageError, match="no region knows"):
        exchange.evict("nobody")
    exchange.close()


def test_what_was_broken_off_is_finished_by_adding(two: Regions) -> None:
    """An eviction, or a return, that ended between its steps leaves void marks, whatever is recorded by then."""
    two.incr("us", "a", 1)
    two.flush()
    exchange = two.exchange()
    exchange.run_once()
    for bucket in range(DEFAULT_BUCKETS):
        marks = KeySpace(b"rc", DEFAULT_BUCKETS).marks(bucket)
        two.client("eu").hset(marks, field_of(b"us").decode(), VOID)
    two.incr("us", "a", 1)
    two.flush()
    with pytest.raises(Unavailable, match="not finished"):
        exchange.run_once()
    exchange.add_regions({"us": two.urls["us"]})
    exchange.run_once()
    assert two.wrong() == []
    exchange.close()


def test_a_region_that_was_added_takes_part_whoever_stops_waiting(two: Regions) -> None:
    """What it had before is closed last, and that may be cancelled."""

    async def main() -> None:
        closing = asyncio.Event()

        async def forever(_places: Iterable[object]) -> None:
            closing.set()
            await asyncio.sleep(60)

        exchange = redis_counters.asyncio.Exchange(two.urls, links=[("eu", "us")])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(exchange._runner, "end", forever)
            adding = asyncio.ensure_future(exchange.add_regions({"us": two.urls["us"]}))
            await closing.wait()
            adding.cancel()
            await asyncio.wait({adding})
        assert set(exchange.stats().pairs) == {("eu", "us"), ("us", "eu")}
        await exchange.close()

    asyncio.run(main())


def test_what_was_opened_for_wrong_links_is_closed(two: Regions, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be a whole server (embedded://)."""
    with two.exchange() as exchange:
        ended: list[str] = []
        end = exchange._runner.end

        def noted(places: Iterable[RegionClient[Any]]) -> None:
            every = list(places)
            ended.extend(place.name for place in every)
            end(every)

        monkeypatch.setattr(exchange._runner, "end", noted)
        with pytest.raises(UsageError, match="none of the regions"):
            exchange.add_regions({"ap": "memory://"}, links=[("ap", "nobody")])
        assert ended == ["ap"]


@pytest.mark.parametrize("face", ["blocking", "asyncio"])
def test_a_region_that_cannot_be_added_changes_nothing(two: Regions, face: str) -> None:
    """Another name for a region that takes part is refused: it is not among the regions of the exchange."""

    async def main() -> None:
        exchange: Any = (redis_counters.asyncio.Exchange if face == "asyncio" else Exchange)(two.urls)
        await _awaited(exchange.run_once())
        before = repr(exchange), exchange.stats().pairs.keys()
        with pytest.raises(SchemaMismatch):
            await _awaited(exchange.add_regions({"ap": two.urls["us"]}))
        assert (repr(exchange), exchange.stats().pairs.keys()) == before
        assert set(await _awaited(exchange.regions())) == {"eu", "us"}
        await _awaited(exchange.close())

    asyncio.run(main())


def test_a_new_region(two: Regions) -> None:
    """One that joins later has all there is; what it had counted before is there, too."""
    two.incr("eu", "a", 1)
    two.flush()
    with regions(["ap"]) as one, two.exchange() as exchange:
        one.incr("ap", "a", 5)
        one.flush()
        exchange.add_regions({"ap": one.urls["ap"]})
        two.truth["a"] = one.truth["a"] = 6
        two.equal()
        one.equal()
        assert ("ap", "eu") in exchange.stats().pairs


def test_an_emptied_region_is_another_deployment(two: Regions) -> None:
    """Its name stands for what it has counted: empty, it would count from 0 under it, and be taken for an old copy."""
    two.incr("us", "a", 5)
    two.flush()
    exchange = two.exchange()
    exchange.run_once()
    two.counters["us"].close()
    two.client("us").flushall()
    with Counters.from_url(two.urls["us"]) as again:
        again.incr("a", 1)
    with pytest.raises(SchemaMismatch, match=r"another deployment.*Give this one a new name"):
        exchange.run_once()
    exchange.evict("us")
    exchange.add_regions({"us2": two.urls["us"]})
    with pytest.raises(SchemaMismatch, match="takes part as"):
        exchange.add_regions({"us": two.urls["us"]})
    two.counters["us"] = Counters.from_url(two.urls["us"])
    two.truth["a"] = 6
    exchange.run_once()
    assert two.wrong() == []
    exchange.close()


def test_an_exchange_elsewhere_notices(three: Regions) -> None:
    """One that runs in another process merges nothing more of an evicted region, without being told of it."""
    for region in three.counters:
        three.incr(region, "a", 1)
    three.flush()
    with three.exchange() as elsewhere:
        three.equal()
        here = three.exchange()
        here.evict("ap")
        three.counters["ap"].incr("a", 100)
        three.counters["ap"].flush()
        three.incr("us", "a", 7)
        three.counters["us"].flush()
        three.counters.pop("ap").close()
        three.equal()
        until(
            lambda: "is evicted" in (elsewhere.stats().pairs["ap", "eu"].last_error or ""),
            "it says so, and how the region takes part again",
        )
        assert three.read("a") == {"eu": 10, "us": 10}
        here.close()
