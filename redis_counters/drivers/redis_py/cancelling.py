"""Work of redis-py, awaited so that no cancellation is lost: its asyncio.wait_for loses some, up to Python 3.11."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from redis import exceptions

from redis_counters.drivers.deadline import Deadline
from redis_counters.drivers.redis_py.hash_slots import BROKEN

T = TypeVar("T")

AWAITED_BROKEN = (*BROKEN, asyncio.TimeoutError)


async def within(deadline: Deadline, answer: Awaitable[T]) -> T:
    """As asyncio.wait_for, which up to Python 3.11 loses a cancellation that comes together with the result."""
    task = asyncio.ensure_future(answer)
    task.add_done_callback(seen)
    try:
        await asyncio.wait({task}, timeout=deadline.left())
        if task.done():
            return task.result()
    finally:
        task.cancel()
    raise exceptions.TimeoutError(deadline.words)


def seen(task: asyncio.Future[Any]) -> None:
    """Retrieve the task's error: without that asyncio logs it."""
    if not task.cancelled():
        task.exception()
