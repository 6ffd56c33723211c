"""Exact counters on Redis and Valkey that thousands of processes bump at once."""

from __future__ import annotations

from redis_counters.counters import Counter, Counters
from redis_counters.errors import (
    BufferFull,
    CounterError,
    NotPermitted,
    OutcomeUnknown,
    Overflow,
    Refused,
    SchemaMismatch,
    Unavailable,
    UsageError,
    WrongType,
)
from redis_counters.protocol.inspection import Inspection
from redis_counters.protocol.stats import Stats
from redis_counters.protocol.values import CounterValue

__version__ = "0.1.0"

__all__ = [
    "BufferFull",
    "Counter",
    "CounterError",
    "CounterValue",
    "Counters",
    "Inspection",
    "NotPermitted",
    "OutcomeUnknown",
    "Overflow",
    "Refused",
    "SchemaMismatch",
    "Stats",
    "Unavailable",
    "UsageError",
    "WrongType",
]
