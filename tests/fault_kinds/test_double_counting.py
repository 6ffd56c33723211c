"""Nothing counts twice and nothing is dropped because an answer was lost: "unknown" is a state of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

from redis_counters import CounterError, Unavailable
from redis_counters.testing import LossyLink
from tests.faces.either import FACES, Either, client_of, closed, once, truth
from tests.servers import RealServer

AS_MADE: list[dict[str, Any]] = [{}, {"protocol": 3}, {"decode_responses": True}]
"""Clients as users make them: with all of redis-py's retries."""

EXPECTED = {b"x": 13, b"down": -4, b"wide": 7}
LIMIT = 20.0  # seconds of a flush, which takes some milliseconds


def through(face: str, link: LossyLink, server: RealServer, **options: Any) -> Any:
    parts = urlsplit(link.url)
    return client_of(face, server, host=parts.hostname, port=parts.port, **options)


async def a_life(counters: Either) -> None:
    """Every command there is: opening, flushing by all kinds of slots, reading one and many, closing, folding."""
    counters.incr("x", 10)
    counters.decr("down", 4)
    counters.counter("wide", shards=3).incr(7)
    await counters.flush(LIMIT)
    counters.incr("x", 3)
    await counters.get("x", max_age=0)
    await counters.flush(LIMIT)
    assert await counters.get_many(["x", "down", "wide"], max_age=0) == {"x": 13, "down": -4, "wide": 7}
    await counters.close(LIMIT)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("options", AS_MADE, ids=["as made", "RESP3", "decoding"])
@pytest.mark.parametrize("lost", range(4))
def test_the_first_replies_are_lost(any_server: RealServer, face: str, options: dict[str, Any], lost: int) -> None:
    """However many replies are lost and whatever the client repeats by itself: one call counts once."""

    async def main(link: LossyLink) -> None:
        client = through(face, link, any_server, **options)
        async with Either(face, client, flush_interval=0.01) as counters:
            link.drop_reply(every=1, times=lost, commands=["EVALSHA", "EVAL"])
            counters.incr("x")
            await counters.flush(LIMIT)
            assert await counters.get("x", max_age=0) == 1
        await closed(client)
        assert link.dropped == lost

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))
    assert truth(any_server, ["x"]) == {b"x": 1}


@pytest.mark.every(3, "seconds each")
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("fault", ["drop_reply", "cut_before"])
@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
def test_whichever_command_it_is(any_server: RealServer, face: str, fault: str, times: int) -> None:
    """The n-th command of a client's life loses its reply, or does not arrive, for every n: all counts are exact.

    ``times`` 2: the 2n-th too. It goes on until n is beyond the last command.
    """

    async def main(link: LossyLink) -> bool:
        client = through(face, link, any_server, retry=once(face))
        getattr(link, fault)(every=number, times=times)
        await a_life(Either(face, client, flush_interval=0.01, buckets=2))
        await closed(client)
        return link.dropped + link.cut > 0

    number, happened = 0, True
    while happened:
        number += 1
        any_server.client().flushall()
        with LossyLink(any_server.url) as link:
            happened = asyncio.run(main(link))
        assert truth(any_server, EXPECTED) == EXPECTED, number
    assert number > 12  # a life is at least so many commands


Failing = Callable[[LossyLink], object]
FAILING: dict[str, Failing] = {
    "not reached": LossyLink.stop,
    "cut before": lambda link: link.cut_before(every=1),
    "applied, reply lost": lambda link: link.drop_reply(every=1, commands=["EVALSHA", "EVAL"]),
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("how", FAILING)
def test_a_flush_that_fails_drops_nothing(any_server: RealServer, face: str, how: str) -> None:
    """A thousand counts, a flush that fails, more counts meanwhile, a flush that does not: all of it, once."""

    async def main(link: LossyLink) -> None:
        client = through(face, link, any_server, retry=once(face))
        async with Either(face, client, flush_interval=0.01) as counters:
            for round_ in range(1, 4):
                FAILING[how](link)
                for _ in range(1000):
                    counters.incr("x")
                flush = asyncio.ensure_future(counters.background("flush", 0.2))
                meanwhile = 0
                while not flush.done():  # they arrive while the flush fails
                    counters.incr("x")
                    counters.incr("y")
                    meanwhile += 1
                    await asyncio.sleep(0.01)
                with pytest.raises(Unavailable) as caught:
                    await flush
                assert set(caught.value.pending) == {"x", "y"}
                link.heal()
                link.start()
                await counters.flush(LIMIT)
                issued["x"] += 1000 + meanwhile
                issued["y"] += meanwhile
                assert await counters.get_many(["x", "y"], max_age=0) == issued, round_
        await closed(client)

    issued = {"x": 0, "y": 0}
    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))
    assert truth(any_server, ["x", "y"]) == {b"x": issued["x"], b"y": issued["y"]}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("then", ["flush again", "close", "cancel"])
def test_given_up_while_it_is_on_its_way(any_server: RealServer, face: str, then: str) -> None:
    """The caller gives up while the reply is late, and calls again: what was on its way counts once.

    Given up by a time-out, by closing, or (asyncio) by cancelling the flush.
    """

    async def main(link: LossyLink) -> None:
        client = through(face, link, any_server)
        counters = Either(face, client, flush_interval=0.01)
        try:
            counters.incr("warm")
            await counters.flush(LIMIT)
            for _ in range(5):
                link.delay(0.1)
                counters.incr("x", 10)
                if then == "cancel" and face == "asyncio":
                    with suppress(asyncio.TimeoutError):
                        await asyncio.wait_for(counters.flush(LIMIT), 0.03)
                elif then != "close":
                    with suppress(Unavailable):
                        await counters.flush(0.03)
                else:
                    with suppress(CounterError):
                        await counters.close(0.03)
                    link.heal()
                    counters = Either(face, client, flush_interval=0.01)
                counters.incr("x")
                link.heal()
                await counters.flush(LIMIT)
        finally:
            link.heal()
            await counters.close(LIMIT)
            await closed(client)

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))
    value = truth(any_server, ["x"])[b"x"]
    if then == "close":  # what close() gave up may be there or not, but never twice
        assert value in {5 + 10 * n for n in range(6)}
    else:
        assert value == 55
