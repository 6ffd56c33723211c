"""Recording of the blocking driver: who writes the journal when, and in which order. Of what, the recorder knows.

Changes are written in the order in which they were taken, one after the other, and never under the core's lock: the
disk may take long. (A call that is recorded by itself has to be on the disk before it counts.)
"""

from __future__ import annotations

import threading

from redis_counters.drivers.journal.client import Journal
from redis_counters.protocol.core import Core
from redis_counters.protocol.journal.recorder import Recorder
from redis_counters.protocol.wire.values import Name


class Recording:
    """The journals of a client for threads."""

    def __init__(self, core: Core, lock: threading.RLock) -> None:
        self.core = core
        self.journal = Journal(core)
        self.lock = lock
        self.order = threading.Lock()

    def begin(self, lock: threading.RLock) -> None:
        """In the child of a fork: nothing is recorded, and no lock is held."""
        self.lock, self.order = lock, threading.Lock()
        self.journal.begin()

    def relock(self, lock: threading.RLock) -> None:
        """`threading` makes other locks now; nobody records at this moment."""
        self.lock, self.order = lock, threading.Lock()

    def bury(self) -> None:
        """The thread that wrote, if one did, is no more."""
        self.order = threading.Lock()
        with self.lock:
            self.journal.unknown()

    def own(self) -> bool:
        """What this client has counted is in its journal. False if it cannot be written at present."""
        recorder = self.core.recorder
        return recorder is not None and self.record(recorder)

    def record(self, recorder: Recorder) -> bool:
        """What changed is in the recorder's journal. False if it cannot be written at present."""
        with self.order:
            with self.lock:
                writing = self.journal.take(recorder)
            if isinstance(writing, bool):
                return writing
            failure: BaseException | None = None
            try:
                self.journal.write(writing)
            except BaseException as error:  # also Ctrl-C: the recorder has to know
                failure = error
            with self.lock:
                return self.journal.settle(writing, failure)

    def count(self, name: Name, amount: int) -> None:
        """The amount is in the journal, then in the totals. Raises NotRecorded, Overflow: then it is not counted."""
        with self.lock:
            self.core.check_room(name, amount)
            self.journal.append(name, amount)
            self.core.count(name, amount)

    def seek(self) -> None:
        """What killed processes left is told from the next round on."""
        if self.journal.may_seek:
            with self.order:
                if self.journal.may_seek:
                    found, events = self.journal.seek()
                    with self.lock:
                        self.journal.adopt(found, events)

    def tidy(self) -> None:
        """Journals of which all is told are gone."""
        if self.core.orphans:
            with self.order:
                with self.lock:
                    empty = self.journal.over()
                while empty:
                    empty[-1].remove()
                    empty.pop()

    def close(self) -> None:
        """All that is counted is in the journal, if it is needed any more; nothing is recorded from now on."""
        self.journal.try_now()
        kept = self.own()
        with self.order, self.lock:
            self.journal.close()
            self.core.left_in_journal = kept
