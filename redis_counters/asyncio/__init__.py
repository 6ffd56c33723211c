"""The asyncio face: `Counters`, `Counter`, `Likes`, `Bounded`, `Exchange`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis_counters.asyncio.bounded import Bounded
from redis_counters.asyncio.counters import Counter, Counters
from redis_counters.asyncio.keyed import Likes

if TYPE_CHECKING:
    from redis_counters.asyncio.exchange import Exchange

__all__ = ["Bounded", "Counter", "Counters", "Exchange", "Likes"]


def __getattr__(name: str) -> Any:
    """Import `Exchange` when it is asked for: few do."""
    if name == "Exchange":
        from redis_counters.asyncio.exchange import Exchange

        return Exchange
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
