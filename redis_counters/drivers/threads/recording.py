"""Recording of the blocking driver: the thread that records touches the disk."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from redis_counters.drivers.threads.journaling import Journaling
from redis_counters.protocol.core import Core

T = TypeVar("T")


class Recording(Journaling):
    """The journals of a client for threads."""

    def __init__(self, core: Core, lock: threading.RLock) -> None:
        super().__init__(core)
        self.lock = lock

    def begin(self, lock: threading.RLock) -> None:
        """In the child of a fork: nothing is recorded, and no lock is held."""
        self.relock(lock)
        self.journal.begin()

    def relock(self, lock: threading.RLock) -> None:
        """`threading` makes other locks now; nothing is recorded at this moment."""
        self.lock, self.order = lock, threading.Lock()

    def bury(self) -> None:
        """The thread that wrote, if one did, is no more."""
        self.order = threading.Lock()
        with self.lock:
            self.journal.unknown()

    def seek(self) -> None:
        """What killed processes left is sent from the next round on."""
        if self.journal.may_seek:
            with self.order:
                if self.journal.may_seek:
                    found, events = self.journal.seek()
                    with self.lock:
                        self.journal.adopt(found, events)

    def close(self) -> None:
        """Write all that is counted, if it is needed any more; nothing is recorded from now on."""
        self.journal.try_now()
        kept = self.own()
        with self.order, self.lock:
            self.journal.close()
            self.core.left_in_journal = kept

    def off(self, function: Callable[..., T], *arguments: Any) -> T:
        return function(*arguments)
