"""Waiting for what is sure to come: looked at again and again. No test waits for a time and hopes.

The patience is long because a machine may be busy; it is over only where something is wrong.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

PATIENCE = 60.0  # seconds, after which something that takes parts of a second counts as never


def _nothing() -> None:
    pass


def until(
    done: Callable[[], object], what: str, meanwhile: Callable[[], object] = _nothing, *, every: float = 0.01
) -> None:
    """It is so. Raises AssertionError, with what was waited for, when the patience is over."""
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, f"never: {what}"
        meanwhile()
        time.sleep(every)


async def until_async(done: Callable[[], object | Awaitable[object]], what: str) -> None:
    """As `until`, and the event loop goes on meanwhile; ``done`` may be a coroutine function."""
    end = time.monotonic() + PATIENCE
    while True:
        found = done()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return
        assert time.monotonic() < end, f"never: {what}"
        await asyncio.sleep(0.01)
