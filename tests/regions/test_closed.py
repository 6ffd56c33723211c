"""A closed exchange says so, whatever it is asked for, and changes nothing more; who waits for one is not held up."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

import redis_counters.asyncio
from redis_counters import Event, Exchange, Unavailable
from redis_counters.drivers.redis_py.lanes import BlockingLane
from redis_counters.protocol.wire.commands import Command, hgetall
from tests.faces.either import commandstats, reset_stats
from tests.regions.support import Regions
from tests.servers import RealServer
from tests.waiting import PATIENCE, until, until_async

CALLS: dict[str, Callable[[Any, Regions], Any]] = {
    "start": lambda exchange, _: exchange.start(),
    "run_once": lambda exchange, _: exchange.run_once(),
    "read_skew": lambda exchange, _: exchange.read_skew(["a"]),
    "regions": lambda exchange, _: exchange.regions(),
    "evict": lambda exchange, _: exchange.evict("us"),
    "add_regions": lambda exchange, here: exchange.add_regions({"us": here.urls["us"]}),
}


def at_work() -> list[str]:
    """Return the names of threads that work for a call."""
    kinds = ("redis-counters-exchange-once", "redis-counters-regions")
    return [each.name for each in threading.enumerate() if each.name.startswith(kinds)]


def without_end() -> Generator[Mapping[bytes, Any], Mapping[bytes, Any], Any]:
    """An operation on regions, as a walk over a great many keys is."""

    def plan() -> Generator[list[Command], list[object], None]:
        while True:
            yield [hgetall(b"rc:meta")]

    found = yield {b"eu": plan(), b"us": plan()}
    return found[b"eu"]


def connected(exchange: Exchange) -> None:
    """All pairs find open connections: a handshake with a server that is frozen lasts as long as its time-out."""
    for place in exchange._places.places.values():
        with place.transport.lane(), place.transport.lane():
            pass


def waiting_at(server: RealServer) -> int:
    """Return how many threads wait for an answer of this server."""
    found = 0
    for frame in sys._current_frames().values():
        at: Any = frame
        while at is not None and at.f_code is not BlockingLane.receive.__code__:
            at = at.f_back
        found += at is not None and at.f_locals["connection"].port == server.port
    return found


def meta(here: Regions) -> dict[str, Any]:
    return {name: here.client(name).hgetall("rc:meta") for name in here.servers}


@pytest.mark.parametrize("call", CALLS)
def test_closed(two: Regions, call: str, caplog: pytest.LogCaptureFixture) -> None:
    """No values that nobody has read, and no region that is recorded by an exchange without others."""
    two.incr("eu", "a", 5)
    two.flush()
    exchange = two.exchange()
    exchange.close()
    exchange.close()
    before = meta(two)
    with caplog.at_level(logging.WARNING), pytest.raises(Unavailable, match="this exchange is closed"):
        CALLS[call](exchange, two)
    assert (meta(two), caplog.records) == (before, [])


@pytest.mark.parametrize("call", CALLS)
def test_closed_asyncio(two: Regions, call: str, caplog: pytest.LogCaptureFixture) -> None:
    """The same, awaited."""
    two.incr("eu", "a", 5)
    two.flush()

    async def main() -> None:
        exchange = redis_counters.asyncio.Exchange(two.urls)
        await exchange.close()
        await exchange.close()

        async def ask() -> None:
            asked = CALLS[call](exchange, two)
            if isinstance(asked, Awaitable):
                await asked

        with pytest.raises(Unavailable, match="this exchange is closed"):
            await ask()

    before = meta(two)
    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert (meta(two), caplog.records) == (before, [])


@contextmanager
def waiting(here: Regions) -> Iterator[tuple[Exchange, list[str]]]:
    """An exchange, and what a thread is told that waits for it until the end, because a region does not answer."""
    here.waited_for("us")
    exchange = here.exchange()
    exchange.run_once()
    until(lambda: not at_work(), "those of before have ended")
    connected(exchange)
    here.servers["us"].pause()
    said: list[str] = []

    def wait() -> None:
        try:
            exchange.run_once()
        except Unavailable as error:
            said.append(str(error))

    thread = threading.Thread(target=wait)
    try:
        thread.start()
        until(lambda: waiting_at(here.servers["us"]) == 2, "it is waited for")
        yield exchange, said
        thread.join(PATIENCE)
    finally:
        here.servers["us"].resume()
        exchange.close()


def test_closed_while_it_is_waited_for(two: Regions, caplog: pytest.LogCaptureFixture) -> None:
    """By another thread, while a region does not answer."""
    with caplog.at_level(logging.WARNING, logger="redis_counters"), waiting(two) as (exchange, said):
        exchange.close()
    assert said == ["this exchange is closed"]
    assert caplog.records == []


def test_closed_while_regions_are_asked(two: Regions) -> None:
    """It is over with the next answer, and no connection is left, or made anew."""
    said: list[object] = []
    here = two.client("eu")
    before = len(here.client_list())
    exchange = two.exchange()
    asking = threading.Thread(target=lambda: said.append(exchange._runner.operate(without_end())), daemon=True)
    asking.start()
    until(lambda: len(here.client_list()) > before, "they are asked")
    exchange.close()
    asking.join(PATIENCE)
    assert [str(each) for each in said] == ["this exchange is closed"]
    until(lambda: len(here.client_list()) == before, "its connections have ended")


def test_closed_while_regions_are_asked_in_asyncio(two: Regions) -> None:
    """The same, awaited."""
    here = two.client("eu")
    before = len(here.client_list())

    async def main() -> None:
        exchange = redis_counters.asyncio.Exchange(two.urls)
        asking = asyncio.ensure_future(exchange._runner.operate(without_end()))
        await until_async(lambda: len(here.client_list()) > before, "they are asked")
        await exchange.close()
        said = await asyncio.wait_for(asking, PATIENCE)
        assert str(said) == "this exchange is closed"

    asyncio.run(main())
    until(lambda: len(here.client_list()) == before, "its connections have ended")


def test_closed_while_it_is_awaited(two: Regions, caplog: pytest.LogCaptureFixture) -> None:
    """By another task, while a region does not answer."""

    async def main() -> None:
        exchange = redis_counters.asyncio.Exchange(two.urls)
        await exchange.run_once()
        two.servers["us"].pause()
        reset_stats(two.servers["eu"])
        try:
            waiting = asyncio.ensure_future(exchange.run_once())
            await until_async(lambda: commandstats(two.servers["eu"]).get("hgetall"), "the other region is asked")
            await asyncio.sleep(0.1)  # so that its answer is read
            await exchange.close()
            with pytest.raises(Unavailable, match="this exchange is closed"):
                await asyncio.wait_for(waiting, PATIENCE)
        finally:
            two.servers["us"].resume()

    with caplog.at_level(logging.WARNING, logger="redis_counters"):
        asyncio.run(main())
    assert caplog.records == []


def test_who_closes_it_is_cancelled(two: Regions) -> None:
    """Its connections have ended all the same: nobody else would end them."""

    async def main() -> None:
        exchange = redis_counters.asyncio.Exchange(two.urls, interval=0.02)
        exchange.start()
        await until_async(lambda: exchange.stats().lag is not None, "all pairs have their connections")
        assert len(here.client_list()) > before
        closing = asyncio.ensure_future(exchange.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await asyncio.to_thread(until, lambda: len(here.client_list()) == before, "its connections have ended")

    here = two.client("eu")
    before = len(here.client_list())
    asyncio.run(main())


def test_a_timeout_holds_while_others_wait_for_the_region(two: Regions) -> None:
    """The background holds the pair and waits for a region that is frozen: `run_once` is back in time."""
    two.waited_for("us")
    with two.exchange() as exchange:
        exchange.run_once()
        connected(exchange)
        two.servers["us"].pause()
        try:
            until(lambda: waiting_at(two.servers["us"]) == 2, "the background waits")
            began = time.monotonic()
            with pytest.raises(Unavailable, match="not done in time"):
                exchange.run_once(timeout=0.5)
            assert time.monotonic() - began < PATIENCE
            until(lambda: not at_work(), "nobody works for it any more")
        finally:
            two.servers["us"].resume()


def test_a_timeout_holds_while_it_is_awaited(two: Regions) -> None:
    """The same in asyncio."""
    two.waited_for("us")

    async def main() -> None:
        exchange = redis_counters.asyncio.Exchange(two.urls)
        await exchange.run_once()
        two.servers["us"].pause()
        try:
            with pytest.raises(Unavailable, match="not done in time"):
                await asyncio.wait_for(exchange.run_once(timeout=0.3), PATIENCE)
        finally:
            two.servers["us"].resume()
        await exchange.close()

    asyncio.run(main())


def test_an_interrupt_does_not_wait_for_the_region(two: Regions) -> None:
    """Ctrl-C while a region is frozen: who called `run_once` goes on at once, and nobody works for it any more."""
    two.waited_for("us")
    exchange = two.exchange()
    exchange.run_once()
    connected(exchange)
    two.servers["us"].pause()
    this = threading.get_ident()

    def ring() -> None:
        until(lambda: waiting_at(two.servers["us"]) == 2, "it waits")
        signal.pthread_kill(this, signal.SIGINT)

    ringing = threading.Thread(target=ring)
    try:
        ringing.start()
        with pytest.raises(KeyboardInterrupt):
            exchange.run_once()
        until(lambda: not at_work(), "nobody works for it any more")
    finally:
        two.servers["us"].resume()
        ringing.join()
        exchange.close()


def test_an_interrupt_does_not_wait_for_all_answers(two: Regions) -> None:
    """Ctrl-C while regions are asked for a lot: it is over with the next answer."""
    exchange = two.exchange()
    ring = threading.Timer(0.5, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
    try:
        ring.start()
        with pytest.raises(KeyboardInterrupt):
            exchange._runner.operate(without_end())
        until(lambda: not at_work(), "they have ended")
    finally:
        ring.join()
        exchange.close()


def test_who_waits_for_a_region_that_was_replaced_begins_anew(two: Regions) -> None:
    """Evicted and added at once, while it does not answer: nobody waits on a connection that is about to end."""
    two.waited_for("us")
    exchange = two.exchange()
    exchange.run_once()
    runner, places = exchange._runner, exchange._places
    links, session, begun = list(places.pairs), runner.session, dict.fromkeys(places.pairs, 0)

    def counted(link: tuple[str, str]) -> None:
        begun[link] += 1
        session(link)

    runner.session = counted  # type: ignore[method-assign]
    connected(exchange)
    exchange.start()
    two.servers["us"].pause()
    try:
        until(lambda: all(each.locked() for each in runner.at_work.values()), "the background waits")
        before = dict(begun)
        places.unlink("us")
        places.link(links)
        until(lambda: all(begun[link] > before[link] for link in links), "it begins anew")
    finally:
        two.servers["us"].resume()
        exchange.close()


def test_what_ends_with_a_region_that_was_replaced_is_no_failure(two: Regions) -> None:
    """As above, awaited: its connections end while an answer is awaited on them."""
    two.waited_for("us")
    events: list[Event] = []

    async def main() -> None:
        exchange = redis_counters.asyncio.Exchange(two.urls, observer=events.append)
        await exchange.run_once()
        runner, places = exchange._runner, exchange._places
        links, pairs = list(places.pairs), dict(places.pairs)
        exchange.start()
        two.servers["us"].pause()
        try:
            await until_async(lambda: all(each.locked() for each in runner.at_work.values()), "the background waits")
            places.unlink("us")
            places.link(links)
            await places.places["us"].transport.client.connection_pool.disconnect()
            waiting = [runner.takes_part(link, pair) for link, pair in pairs.items()]
            await asyncio.sleep(0.3)
            assert (waiting, events) == ([False, False], [])
        finally:
            two.servers["us"].resume()
            await exchange.close()

    asyncio.run(main())


@pytest.mark.parametrize("patience", [1e12, float("inf")])
def test_who_waits_as_long_as_it_takes(two: Regions, patience: float) -> None:
    """Longer than locks can: then it is as long as they can."""
    two.incr("eu", "a")
    two.flush()
    assert two.read("a") == {"eu": 1, "us": 0}
    here = two.client("eu")
    before = len(here.client_list())
    exchange = two.exchange()
    exchange.run_once(timeout=patience)
    assert two.read("a") == {"eu": 1, "us": 1}
    exchange.start()
    exchange.close(timeout=patience)
    until(lambda: len(here.client_list()) == before, "its connections have ended")


def test_who_waits_for_a_region_that_is_evicted_is_told_so(two: Regions) -> None:
    """It is not the time that is over: there may be no limit."""
    with waiting(two) as (exchange, said):
        exchange._places.unlink("us")
    assert ["evicted" in each for each in said] == [True]


def test_who_awaits_a_region_that_gets_another_client_is_told_so(two: Regions) -> None:
    """It is no failure of what takes part now."""
    two.waited_for("us")
    events: list[Event] = []

    async def main() -> None:
        exchange = redis_counters.asyncio.Exchange(two.urls, observer=events.append)
        await exchange.run_once()
        runner, places = exchange._runner, exchange._places
        two.servers["us"].pause()
        try:
            waiting = asyncio.ensure_future(exchange.run_once())
            await until_async(lambda: all(each.locked() for each in runner.at_work.values()), "it is waited for")
            places.link([], ["us"])
            await places.places["us"].transport.client.connection_pool.disconnect()
            with pytest.raises(Unavailable, match="added again"):
                await asyncio.wait_for(waiting, PATIENCE)
            assert (events, exchange.stats().failures) == ([], 0)
        finally:
            two.servers["us"].resume()
            await exchange.close()

    asyncio.run(main())
