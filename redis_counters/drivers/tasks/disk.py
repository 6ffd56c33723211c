"""The thread of an asyncio client that touches the disk, so that the loop does not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class Disk:
    """Calls what touches the disk, one after the other."""

    def __init__(self) -> None:
        self._thread: Executor | None = None

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return what the function returns."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "redis-counters-journal")
        try:
            future = asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)
        except RuntimeError:  # the interpreter is ending, no thread can be started
            return function(*arguments)
        return await future

    def end(self) -> None:
        """The thread ends, when it is through."""
        if self._thread is not None:
            self._thread.shutdown(wait=False)
