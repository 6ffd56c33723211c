"""A client that nobody holds any more, and nobody has closed: users are warned, as of an open file, and it is ended.

What is told here by the garbage collector may be told in any thread and at any point, also where that thread holds a
lock. So nothing may be waited for, and no thread be started: the client's own background does the rest.

An error that a client keeps must not hold it: a traceback has the frames of all who called, with the clients in them.
"""

from __future__ import annotations

import copy
import warnings
import weakref
from collections.abc import Callable
from typing import TypeVar

from redis_counters.drivers.process import atexit_hooks
from redis_counters.errors import CounterError

E = TypeVar("E", bound=CounterError)


def when_dropped(face: object, end: Callable[[], bool]) -> None:
    """If nobody holds the face any more, ``end()`` is called, and says whether there was something to end."""
    weakref.finalize(face, _dropped, repr(face), end).atexit = False


def without_traceback(error: E) -> E:
    """Return the same error, without where it came up."""
    return copy.copy(error)


def _dropped(shown: str, end: Callable[[], bool]) -> None:
    if end() and not atexit_hooks.ending():
        warnings.warn(f"unclosed {shown}: what it counted is sent, then it ends", ResourceWarning, stacklevel=2)
