"""Stand-ins for a client that is made, or known, only later: for modules of an application to import."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from redis_counters._blocking.counters import Counters
from redis_counters.contrib.shutdown import close

if TYPE_CHECKING:
    _Face = Counters  # so that checkers and editors know every method, without a copy of any here
else:
    _Face = object


class Forwarding(ABC, _Face):
    """Has the methods of the `Counters` that `_current` returns."""

    @abstractmethod
    def _current(self) -> Counters: ...

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # attribute probing must not create a client
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._current(), name)


class Lazy(Forwarding):
    """Has the methods of a `Counters` that is made at the first use, one per process.

    No lock guards this: a fork could copy it while it is held. Two threads at the same time both make a client; the
    second is closed, and has counted nothing.
    """

    def __init__(self, make: Callable[[], Counters]) -> None:
        self._make = make
        self._made: dict[None, Counters] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} {self._made.get(None, 'not used yet')!s}>"

    def _current(self) -> Counters:
        made = self._made.get(None)
        if made is None:
            own = self._make()
            made = self._made.setdefault(None, own)
            if made is not own:
                own.close(timeout=0)
        return made

    def _end(self) -> None:
        """Close the client: its counts are in Redis, or their loss is logged. The next use makes a new one."""
        if (made := self._made.pop(None, None)) is not None:
            close(made)
