"""Exact counters on Redis and Valkey that thousands of processes bump at once.

``pip show --verbose redis-counters`` says where the documentation is, with the pages that docstrings name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis_counters._blocking.bounded import Bounded
from redis_counters._blocking.counters import Counter, Counters
from redis_counters._blocking.keyed import Likes
from redis_counters.errors import (
    BufferFull,
    CounterError,
    InsufficientRights,
    KeyConflict,
    NotPermitted,
    NotRecorded,
    Outcome,
    OutcomeUnknown,
    Overflow,
    Refused,
    SchemaMismatch,
    Unavailable,
    Unconfirmed,
    UsageError,
    WrongType,
)
from redis_counters.events import Event, EventKind
from redis_counters.protocol.stats import Stats
from redis_counters.protocol.wire.durability import Durability
from redis_counters.protocol.wire.values import CounterValue

if TYPE_CHECKING:
    from redis_counters._blocking.exchange import Exchange
    from redis_counters.periods import Period, period
    from redis_counters.protocol.exchange.metrics import ExchangeStats, PairStats, RegionStatus
    from redis_counters.protocol.read.inspection import Inspection
    from redis_counters.protocol.wire.options import Options
    from redis_counters.signals import exit_on_sigterm

__version__ = "0.1.0"

__all__ = [
    "Bounded",
    "BufferFull",
    "Counter",
    "CounterError",
    "CounterValue",
    "Counters",
    "Durability",
    "Event",
    "EventKind",
    "Exchange",
    "ExchangeStats",
    "Inspection",
    "InsufficientRights",
    "KeyConflict",
    "Likes",
    "NotPermitted",
    "NotRecorded",
    "Options",
    "Outcome",
    "OutcomeUnknown",
    "Overflow",
    "PairStats",
    "Period",
    "Refused",
    "RegionStatus",
    "SchemaMismatch",
    "Stats",
    "Unavailable",
    "Unconfirmed",
    "UsageError",
    "WrongType",
    "exit_on_sigterm",
    "period",
]


def __getattr__(name: str) -> Any:
    """Import some names when they are asked for: few are, and every process pays for an import."""
    if name == "Inspection":
        from redis_counters.protocol.read.inspection import Inspection

        return Inspection
    if name == "Exchange":
        from redis_counters._blocking.exchange import Exchange

        return Exchange
    if name in ("ExchangeStats", "PairStats", "RegionStatus"):
        from redis_counters.protocol.exchange import metrics

        return getattr(metrics, name)
    if name in ("Period", "period"):
        from redis_counters import periods

        return getattr(periods, name)
    if name == "Options":
        from redis_counters.protocol.wire.options import Options

        return Options
    if name == "exit_on_sigterm":
        from redis_counters.signals import exit_on_sigterm

        return exit_on_sigterm
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
