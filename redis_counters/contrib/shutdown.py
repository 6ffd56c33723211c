"""The end of a client when its application ends: nobody is left there to catch an error, so it is logged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redis_counters.errors import CounterError, Unavailable
from redis_counters.events import log

if TYPE_CHECKING:
    import redis_counters
    import redis_counters.asyncio

TIMEOUT = 5.0  # seconds


def close(counters: redis_counters.Counters, timeout: float = TIMEOUT) -> None:
    """The client is closed; what did not get across is logged."""
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


def _log(error: CounterError) -> None:
    pending = error.pending if isinstance(error, Unavailable) else {}
    log.error("when the application ended: %s; pending: %s", error, pending or "nothing")
