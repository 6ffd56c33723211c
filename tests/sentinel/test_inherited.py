"""A client of Sentinels takes no connection to them into a forked child, or into another event loop."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

from redis_counters import Counters, Event, EventKind
from redis_counters.asyncio import Counters as AsyncioCounters
from tests.faces.either import truth
from tests.lifecycle.children import FORKS, ended_well, forked, with_each_lock_held
from tests.sentinel.clients import HandedIn
from tests.topologies import Sentinels

# Whoever closes a loop, without closing the client first, is told of its connections.
pytestmark = [
    *FORKS,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Warnings of what a test leaves behind are its own."""
    yield
    gc.collect()


def test_a_loop_after_the_other(sentinels: Sentinels) -> None:
    """asyncio.run again and again with one client: each loop asks the Sentinels anew, over connections of its own."""
    events: list[Event] = []

    async def end() -> None:
        await counters.close()
        await handed_in.close()

    async def use(step: int) -> None:
        counters.incr("x")
        assert await counters.get("x", max_age=0) == step
        await counters.flush(10)

    handed_in = HandedIn("asyncio", sentinels)
    counters = AsyncioCounters(handed_in.client, flush_interval=0.01, observer=events.append)
    for step in range(1, 6):
        asyncio.run(use(step))
    asyncio.run(end())
    assert not [event for event in events if event.kind is EventKind.FLUSH_FAILED]
    assert truth(sentinels.pair.primary, ["x"]) == {b"x": 5}


def test_a_fork_with_asyncio(sentinels: Sentinels) -> None:
    """Parent and children ask for the primary again and again: none reads, or waits for, another's answer."""
    events: list[Event] = []

    async def end() -> None:
        await counters.close()
        await handed_in.close()

    async def count(name: str) -> None:
        for _ in range(20):
            async with counters._runner.rounds.lock:  # in a round it would break off
                await handed_in.client.connection_pool.disconnect()  # what follows looks for the primary
            counters.incr(name)
            assert await counters.get(name, max_age=0) > 0
            await counters.flush(10)
        assert not [event for event in events if event.kind is EventKind.FLUSH_FAILED]

    async def main() -> None:
        counters.incr("x")
        await counters.flush(10)
        children = [forked(child) for _ in range(3)]
        await count("x")
        await asyncio.to_thread(ended_well, *children)
        await end()

    def child() -> None:
        asyncio._set_running_loop(None)  # the parent's: it does not run here
        asyncio.run(count("child's"))

    handed_in = HandedIn("asyncio", sentinels)
    counters = AsyncioCounters(handed_in.client, flush_interval=0.01, observer=events.append)
    asyncio.run(main())
    assert truth(sentinels.pair.primary, ["x", "child's"]) == {b"x": 21, b"child's": 60}


def test_any_lock_of_the_client_is_held_at_the_fork(sentinels: Sentinels) -> None:
    """Those of the connections to Sentinels are among them: no child waits for a thread that only the parent has."""
    handed_in = HandedIn("blocking", sentinels)
    with Counters(handed_in.client) as counters:
        counters.incr("x")
        counters.flush(10)

        def work() -> None:
            counters.incr("child's")
            counters.flush(10)
            counters.close()

        locks = with_each_lock_held(handed_in.client, work)
        assert locks >= 4  # of the client's pool, and of one for each Sentinel
    asyncio.run(handed_in.close())
    assert truth(sentinels.pair.primary, ["child's"]) == {b"child's": locks}
