"""The end of a client of the asyncio face, from outside of any event loop."""

from __future__ import annotations

import asyncio

from redis_counters.asyncio import Counters


def close_anywhere(counters: Counters) -> None:
    """Close the client: in the loop that it was used in, if that is still open, else in one of its own."""
    loop = counters._runner.home.loop
    if loop is not None and not loop.is_closed():
        loop.run_until_complete(counters.close())
        return
    own = asyncio.new_event_loop()  # asyncio.run() would also unset the current loop, which is not ours
    try:
        own.run_until_complete(counters.close())
    finally:
        own.close()
