"""Votes counted by a thousand tasks of one event loop, over a link that loses every third reply of a flush.

    python examples/asyncio_votes.py

The server is the one of REDIS_COUNTERS_URL, else redis://localhost:6379/0.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys

from redis_counters.asyncio import Counters
from redis_counters.testing import LossyLink

URL = os.environ.get("REDIS_COUNTERS_URL", "redis://localhost:6379/0")


async def voter(counters: Counters, poll: str, number: int) -> None:
    """One vote, for one of two; counting is not awaited."""
    await asyncio.sleep(number % 10 / 100)
    counters.incr(f"{poll}:{'yes' if number % 3 else 'no'}")


async def main() -> int:
    """Return 0 if every vote was counted once."""
    poll = f"example:poll:{secrets.token_hex(4)}"  # new, so that this run starts at 0
    with LossyLink(URL) as link:
        link.drop_reply(every=3, commands={"EVALSHA"})
        async with Counters.from_url(link.url, flush_interval=0.01) as counters:
            await asyncio.gather(*(voter(counters, poll, number) for number in range(1000)))
        lost = link.dropped
    async with Counters.from_url(URL) as counters:
        votes = await counters.get_many([f"{poll}:yes", f"{poll}:no"])
    yes, no = votes.values()
    print(f"yes {yes}, no {no}; replies lost: {lost}")
    return int((yes, no) != (666, 334) or not lost)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
