"""The numbers for every open page: read once for all pages, ten times a second at most, while one is open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from redis_counters.demo.web.board import Facts

INTERVAL = 0.1  # seconds between two updates
_SILENCE = 1.0  # seconds after which the state is sent again: a page that missed something has it then
_LINGER = 2.0  # seconds that it goes on reading after the last page has left: one that reloads is back soon
RETRY = 500  # milliseconds until a browser connects again


@dataclass(frozen=True, slots=True)
class Shown:
    """The numbers of the page. ``stale``: Redis did not answer, these are the last that are known."""

    likes: tuple[int, ...]
    facts: Facts
    stale: bool = False

    def as_json(self, **more: object) -> dict[str, Any]:
        """Return it as the page's script expects it."""
        return {"likes": self.likes, "facts": asdict(self.facts), "stale": self.stale, **more}


class Live:
    """The streams of one worker. ``read`` fetches the numbers; ``ending``: the server stops."""

    def __init__(self, read: Callable[[], Awaitable[Shown]], ending: Callable[[], bool], worker: int) -> None:
        self._read, self._ending, self._worker = read, ending, worker
        self._shown: Shown | None = None
        self._news = asyncio.Event()
        self._looking = 0
        self._reader: asyncio.Task[None] | None = None

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yield server-sent events: the whole state when it has changed, and now and then."""
        self._looking += 1
        try:
            if self._reader is None or self._reader.done():
                self._shown = None  # of the last reading
                self._reader = asyncio.create_task(self._keep_reading(), name="live")
            yield b"retry: %d\n\n" % RETRY
            sent: Shown | None = None
            while not self._ending() and not self._reader.done():
                news, shown = self._news, self._shown
                if shown is not None and shown != sent:
                    sent = shown
                    text = json.dumps(shown.as_json(worker=self._worker), separators=(",", ":"))
                    yield b"data: %s\n\n" % text.encode()
                elif not await set_within(news, _SILENCE):
                    sent = None
        finally:
            self._looking -= 1

    async def close(self) -> None:
        """Stop reading."""
        if self._reader is not None:
            self._reader.cancel()
            with suppress(asyncio.CancelledError):
                await self._reader

    async def _keep_reading(self) -> None:
        loop = asyncio.get_running_loop()
        idle_since: float | None = None
        try:
            while not self._ending():
                began = loop.time()
                self._tell(await self._read())
                if self._looking:
                    idle_since = None
                elif idle_since is None:
                    idle_since = began
                elif began - idle_since > _LINGER:
                    return
                await asyncio.sleep(max(0.01, INTERVAL - (loop.time() - began)))
        finally:
            self._wake()  # so that streams see the end

    def _tell(self, shown: Shown) -> None:
        if shown != self._shown:
            self._shown = shown
            self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


async def set_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for the event, but not longer; return whether it was set."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except asyncio.TimeoutError:
        return False
    return True
