"""The end of a client when its application ends: no caller is left to catch an error, so it is logged."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from redis_counters.errors import CounterError, Unavailable
from redis_counters.events import log

if TYPE_CHECKING:
    import redis_counters
    import redis_counters.asyncio

TIMEOUT = 5.0  # seconds
STATE = "redis_counters"  # the attribute of an application's state that is its client


def close(counters: redis_counters.Counters, timeout: float = TIMEOUT) -> None:
    """Close the client within ``timeout`` seconds, and log what was not flushed. Raises nothing."""
    try:
        counters.close(timeout)
    except CounterError as error:
        _log(error)


async def close_asyncio(counters: redis_counters.asyncio.Counters, timeout: float = TIMEOUT) -> None:
    """As `close`, awaited."""
    try:
        await counters.close(timeout)
    except CounterError as error:
        _log(error)


@asynccontextmanager
async def attached(state: Any, counters: redis_counters.asyncio.Counters, timeout: float) -> AsyncIterator[None]:
    """Inside, the client is in the application's state, instead of one that was there; at the end it is closed."""
    around = getattr(state, STATE, None)
    setattr(state, STATE, counters)
    try:
        yield
    finally:
        if around is None:
            delattr(state, STATE)
        else:
            setattr(state, STATE, around)
        await close_asyncio(counters, timeout)


def _log(error: CounterError) -> None:
    pending = error.pending if isinstance(error, Unavailable) else {}
    log.error("when the application ended: %s; pending: %s", error, pending or "nothing")
