"""The event loop that a client belongs to: that in which it was first used, until it is closed; then the next one."""

from __future__ import annotations

import asyncio
import threading

from redis_counters.errors import UsageError


class Home:
    """Knows the loop, and the thread whose increments are taken in at once."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread = threading.get_ident()  # the loop's, or the maker's

    def enter(self, loop: asyncio.AbstractEventLoop) -> asyncio.AbstractEventLoop | None:
        """Belong to this loop; return the one before. Raises UsageError if that may still run."""
        if self.loop is not None and not self.loop.is_closed():
            raise UsageError(
                "this client belongs to another event loop, which is not closed; make one Counters per event loop"
            )
        before, self.loop, self.thread = self.loop, loop, threading.get_ident()
        return before

    def free(self) -> bool:
        """True if the client belongs to no loop that may still run."""
        return self.loop is None or self.loop.is_closed()

    def may_enter(self) -> bool:
        """True in a loop that is the client's, or may become it."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        return loop is self.loop or self.free()

    def elsewhere(self) -> bool:
        """True in a thread that the loop does not run in, while it runs."""
        return self.thread != threading.get_ident() and self.loop is not None and self.loop.is_running()
