"""Finalizer of unclosed clients: ResourceWarning, as for an open file, then shutdown.

The garbage collector may call it in any thread and at any point, also where that thread holds a lock. So it waits for
nothing, and starts no thread: the client's own background does the rest.

An error that a client keeps must not hold the client: a traceback has the frames of all callers, with clients in them.
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
    """When the face is garbage, ``end()`` is called, and returns whether there was something to end."""
    weakref.finalize(face, _dropped, repr(face), end).atexit = False


def without_traceback(error: E) -> E:
    """Return a copy of the error without its traceback."""
    return copy.copy(error)


def _dropped(shown: str, end: Callable[[], bool]) -> None:
    if end() and not atexit_hooks.ending():
        warnings.warn(f"unclosed {shown}: what it counted is sent, then it ends", ResourceWarning, stacklevel=2)
