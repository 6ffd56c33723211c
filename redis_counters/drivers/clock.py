"""The clock by which waiting ends: the real one, whatever a test does to `time`.

freezegun, and tests that patch ``time.monotonic``, stop the clock of the module `time`, and freezegun that of every
module which has taken the function from there. A flush with a time-out would not end in them while Redis is away. So
the function is taken once, at import, and kept in an object that is not the function itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from types import BuiltinFunctionType


def _real() -> Callable[[], float]:
    if isinstance(time.monotonic, BuiltinFunctionType) or not hasattr(time, "clock_gettime"):
        return time.monotonic
    return partial(time.clock_gettime, time.CLOCK_MONOTONIC)  # imported while time stood still


monotonic: Callable[[], float] = partial(_real())


def wall() -> float:
    """Return the date, epoch seconds; where a test sets another one, that, and only as long as the test does."""
    return time.time()
