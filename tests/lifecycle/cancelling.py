"""Calls that are cancelled at any of their awaits."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from tests.waiting import PATIENCE

MOST = 400  # awaits of one call, at the most


@types.coroutine
def cancelled_at(call: Coroutine[Any, Any, Any], numbers: range) -> Generator[Any, Any, Any]:
    """Await a call, and cancel the task when it waits for the n-th time, for each of these numbers."""
    count, raised = 0, None
    while True:
        try:
            waited = call.send(None) if raised is None else call.throw(raised)
        except StopIteration as stop:
            return stop.value
        if count in numbers:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        count += 1
        try:
            yield waited
            raised = None
        except BaseException as error:
            raised = error


async def at_every_await(call: Callable[[], Coroutine[Any, Any, Any]], times: int, each: Callable[[], None]) -> int:
    """Cancel a call at its first await, then at its second, ... until it gets through; return how many there were.

    ``times`` is how often in a row: twice is a cancellation of what cleans up after the first.
    """
    number = through = 0
    while through < 2:
        assert number < MOST
        task = asyncio.ensure_future(awaited(cancelled_at(call(), range(number, number + times))))
        done, _ = await asyncio.wait({task}, timeout=PATIENCE)
        assert done, "it hangs"
        through = 0 if task.cancelled() else through + 1
        if not task.cancelled():
            task.result()
        number += 1
        each()
    return number


async def awaited(awaitable: Any) -> Any:
    return await awaitable
