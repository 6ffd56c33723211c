"""Work of redis-py, awaited so that no cancellation is lost: its asyncio.wait_for loses some, up to Python 3.11."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable

from redis import exceptions


async def within(answer: Awaitable[object], seconds: float | None) -> object:
    """As asyncio.wait_for, which up to Python 3.11 loses a cancellation that comes together with the result."""
    task = asyncio.ensure_future(answer)
    task.add_done_callback(_seen)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
    finally:
        task.cancel()
    raise exceptions.TimeoutError(f"no answer within {seconds:g} s")


async def cancellable(work: Awaitable[object]) -> object:
    """Await work of redis-py that uses asyncio.wait_for."""
    return await work if sys.version_info >= (3, 12) else await within(work, None)


def _seen(task: asyncio.Future[object]) -> None:
    """Nobody need be told how it ended after all."""
    if not task.cancelled():
        task.exception()
