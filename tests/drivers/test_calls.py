"""How many calls of Python a flush of one counter takes."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType

import redis_counters
from redis_counters import Counters
from tests.servers import RealServer

PACKAGE = str(Path(redis_counters.__file__).parent)
MOST = 250


class Calls:
    """Calls of functions of the library, in all threads; each time that a generator goes on is one."""

    def __init__(self) -> None:
        self.counting = False
        self.number = 0

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        if self.counting and event == "call":
            self.number += frame.f_code.co_filename.startswith(PACKAGE)


def test_a_flush_of_one_counter_looks_through_no_empty_tables(any_server: RealServer) -> None:
    """Fifteen of the sixteen buckets hold nothing: those are not asked for actors, tables or requests.

    The least of five flushes, for another thread may look at the time meanwhile.
    """
    calls, numbers = Calls(), []
    threading.setprofile(calls)  # the client's threads start with it
    sys.setprofile(calls)
    try:
        with Counters.from_url(any_server.url, flush_interval=60) as counters:
            for _ in range(8):
                counters.incr("visits")
                calls.number, calls.counting = 0, True
                counters.flush()
                calls.counting = False
                numbers.append(calls.number)
    finally:
        threading.setprofile(None)
        sys.setprofile(None)
    assert 100 < min(numbers[3:]) < MOST
