"""The stream: what is counted, whole each time, ten times a second at most, and it begins anew whenever asked."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import httpx
import pytest

from redis_counters.demo.web.board import Facts
from redis_counters.demo.web.live import INTERVAL, Live, Shown
from tests.waiting import PATIENCE, until_async
from tests.web.running import JSON, Page


def states(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def test_a_click_is_in_every_stream(page: Page, browser: httpx.Client) -> None:
    """Whichever worker serves it; the first event is the state as it is, before anything happens."""
    with (
        httpx.stream("GET", f"{page.url}/events", timeout=20) as one,
        httpx.stream("GET", f"{page.url}/events", timeout=20) as two,
    ):
        assert one.headers["content-type"].startswith("text/event-stream")
        readers = [states(one.iter_lines()), states(two.iter_lines())]
        before = [next(reader)["likes"][10] for reader in readers]
        assert before[0] == before[1]
        browser.post("/posts/11/like", data={"liked": "yes"}, headers=JSON).raise_for_status()
        for reader in readers:
            assert next(state for state in reader if state["likes"][10] != before[0])["likes"][10] == before[0] + 1


def test_it_says_how_soon_to_connect_again(page: Page) -> None:
    with httpx.stream("GET", f"{page.url}/events", timeout=20) as stream:
        assert next(stream.iter_lines()) == "retry: 500"


class Numbers:
    """Something that changes with every look at it."""

    def __init__(self, changes: bool = True) -> None:
        self.reads = 0
        self.changes = changes

    async def read(self) -> Shown:
        self.reads += 1
        return Shown((self.reads if self.changes else 0,), Facts())


async def follow(live: Live, count: int) -> list[int]:
    """Return the first number of so many events."""
    found: list[int] = []
    async with aclosing(live.stream()) as events:
        async for event in events:
            if event.startswith(b"data: "):
                found.append(json.loads(event[6:])["likes"][0])
                if len(found) == count:
                    break
    return found


def test_ten_updates_a_second_at_most() -> None:
    """However fast things change, and however many look: reading is shared."""

    async def main() -> None:
        numbers = Numbers()
        live = Live(numbers.read, lambda: False, 1)
        begin = time.monotonic()
        seen = await asyncio.gather(*(follow(live, 12) for _ in range(5)))
        assert time.monotonic() - begin >= 11 * INTERVAL * 0.99  # less is too often; more is a busy machine
        assert all(each == sorted(set(each)) for each in seen)
        assert numbers.reads <= 15
        await live.close()

    asyncio.run(main())


def test_a_slow_reader_gets_the_last_state_and_holds_up_nobody() -> None:
    async def main() -> None:
        numbers = Numbers()
        live = Live(numbers.read, lambda: False, 1)
        async with aclosing(live.stream()) as slow:
            await anext(slow)
            first = json.loads((await anext(slow))[6:])["likes"][0]
            await follow(live, 5)  # meanwhile
            now = json.loads((await anext(slow))[6:])["likes"][0]
            assert now >= first + 4
        await live.close()

    asyncio.run(main())


def test_nothing_is_read_when_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a page is open, the state is sent again now and then though nothing changes."""
    monkeypatch.setattr("redis_counters.demo.web.live._SILENCE", 0.2)
    monkeypatch.setattr("redis_counters.demo.web.live._LINGER", 0.0)

    async def main() -> None:
        numbers = Numbers(changes=False)
        live = Live(numbers.read, lambda: False, 1)
        assert await asyncio.wait_for(follow(live, 3), PATIENCE) == [0, 0, 0]
        reader = live._reader
        assert reader is not None
        await until_async(reader.done, "it stops reading")
        assert await follow(live, 1) == [0]  # and begins again
        await live.close()

    asyncio.run(main())


def test_streams_end_when_reading_fails_or_the_server_stops() -> None:
    """A browser that sees its stream end connects again; one that waits for nothing would stay behind for ever."""

    async def fails() -> Shown:
        raise ValueError("a fault of ours")

    async def drain(stream: AsyncGenerator[bytes, None]) -> None:
        async for _ in stream:
            pass

    async def main() -> None:
        live = Live(fails, lambda: False, 1)
        await asyncio.wait_for(drain(live.stream()), 20)
        assert isinstance(live._reader.exception() if live._reader else None, ValueError)
        ending = False
        live = Live(Numbers().read, lambda: ending, 1)
        stream = live.stream()
        await anext(stream)
        await anext(stream)
        ending = True
        await asyncio.wait_for(drain(stream), 20)

    asyncio.run(main())
