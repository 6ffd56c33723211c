"""Objects that stand for a client which is made, or known, only later: as modules of an application import them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from redis_counters._blocking.counters import Counters
from redis_counters.contrib.shutdown import close

if TYPE_CHECKING:
    _Face = Counters  # so that checkers and editors know every method; there is none here to be kept up to date
else:
    _Face = object


class Forwarding(ABC, _Face):
    """Has the methods of the `Counters` that `_current` returns."""

    @abstractmethod
    def _current(self) -> Counters: ...

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # whoever looks a module through for something of his own makes no client
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._current(), name)


class Lazy(Forwarding):
    """Has the methods of a `Counters` that is made at the first use, one per process.

    No lock guards that: a fork could copy it while it is held. Of two threads that come at once both make one, and
    the one that is too late is closed; nobody has counted with it.
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
        """What was counted is in Redis, or its loss is logged; the next use makes a new client."""
        if (made := self._made.pop(None, None)) is not None:
            close(made)
