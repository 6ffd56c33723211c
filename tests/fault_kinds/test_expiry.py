"""A time to live is set in the same step as the count: no key is without it, and none begins anew."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

import pytest

from redis_counters import CounterError
from redis_counters.testing import LossyLink
from tests.faces.either import FACES, Either, closed, once, truth
from tests.fault_kinds.test_double_counting import LIMIT, through
from tests.servers import RealServer

HOUR = 3600


def left(server: RealServer) -> dict[bytes, float]:
    """Return the seconds until each shard of the counter expires; below 0: never."""
    client: Any = server.client()
    return {key: client.pttl(key) / 1000 for key in client.scan_iter(match="*:c:*") if key.endswith(b":x")}


@pytest.mark.every(2, "seconds each")
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("fault", ["drop_reply", "cut_before"])
def test_whichever_command_is_cut(any_server: RealServer, face: str, fault: str) -> None:
    """The n-th command of a client's life loses its reply, or does not arrive, for every n.

    Whenever one looks, every shard that is there expires when it was asked to, and all of them together.
    """

    async def main(link: LossyLink, moment: Any) -> bool:
        client = through(face, link, any_server, retry=once(face))
        getattr(link, fault)(every=number, times=1)
        async with Either(face, client, flush_interval=0.005) as counters:
            handle = counters.counter("x", shards=3, expire_at=moment)
            for _ in range(3):
                handle.incr(2)
                with suppress(CounterError):
                    await counters.flush(LIMIT)
                found = [time.time() + seconds for seconds in left(any_server).values()]
                assert all(abs(when - at) < 5 for when in found), found  # (seconds, or it is another unit)
        await closed(client)
        return link.dropped + link.cut > 0

    number, cut = 1, True
    while cut:
        any_server.client().flushall()
        at = time.time() + HOUR
        with LossyLink(any_server.url) as link:
            cut = asyncio.run(main(link, at if number % 2 else datetime.fromtimestamp(at, timezone.utc)))
        assert truth(any_server, ["x"]) == {b"x": 6}
        assert all(seconds > HOUR - 60 for seconds in left(any_server).values())
        number += 1
    assert number > 5
