"""An exchange in the child of a fork, by Python or by C: it begins anew there, and goes on in the parent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import redis_counters
import redis_counters.asyncio
from redis_counters import Unavailable
from tests.faces.either import FACES
from tests.lifecycle.children import FORKS, ends_well, ends_well_in_c
from tests.regions.support import Regions
from tests.waiting import until

pytestmark = FORKS

Fork = Callable[[Callable[[], None]], None]


@pytest.mark.parametrize("fork", [ends_well, ends_well_in_c], ids=["forked", "forked_in_c"])
@pytest.mark.parametrize("face", FACES)
def test_a_child_of_a_process_that_exchanges(two: Regions, face: str, fork: Fork) -> None:
    """A child reads figures, exchanges at once and in the background, and closes; nothing of it is its parent's."""
    loop = asyncio.new_event_loop()
    module = redis_counters if face == "blocking" else redis_counters.asyncio
    for region in two.servers:
        two.incr(region, "x", 5)
    two.flush()

    async def begin() -> None:
        if fork is ends_well:
            exchange.start()
            await asyncio.to_thread(two.equal)
        else:  # whose children cannot be relied on where threads were at work: Python's own lock may be left held
            await _done(exchange.run_once(20))

    async def in_child() -> None:
        assert not any(pair.bytes for pair in exchange.stats().pairs.values())
        await _done(exchange.run_once(20))
        assert set(await _done(exchange.read_skew(["x"]))) == {"x"}
        exchange.start()
        assert (await _done(exchange.regions())).keys() == two.servers.keys()
        await _done(exchange.close())
        with pytest.raises(Unavailable):
            await _done(exchange.run_once(20))

    async def go_on() -> None:
        before = sum(pair.bytes for pair in exchange.stats().pairs.values())
        two.incr("eu", "x", 100)
        await asyncio.to_thread(two.flush)
        if fork is ends_well_in_c:
            await _done(exchange.run_once(20))
        await asyncio.to_thread(two.equal)
        assert sum(pair.bytes for pair in exchange.stats().pairs.values()) > before
        await _done(exchange.close())

    exchange: Any = module.Exchange(two.urls, interval=0.02)
    loop.run_until_complete(begin())
    fork(lambda: asyncio.run(in_child()))
    loop.run_until_complete(go_on())
    loop.close()
    until(lambda: not two.wrong(), "nothing was counted twice")


async def _done(result: Any) -> Any:
    return await result if asyncio.iscoroutine(result) else result
