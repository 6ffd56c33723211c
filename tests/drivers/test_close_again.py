"""close() that is called twice, at once or after an interruption: delivered, or told, by whoever returns last."""

from __future__ import annotations

import asyncio
import threading

import pytest
import redis.asyncio

from redis_counters import Counters, Unavailable
from redis_counters.asyncio import Counters as AsyncioCounters
from redis_counters.testing import LossyLink
from tests.faces.either import truth
from tests.servers import RealServer


def test_who_closes_second_waits_for_the_first(any_server: RealServer) -> None:
    """Both threads find everything in Redis when their close() has returned."""
    with LossyLink(any_server.url) as link:
        counters = Counters.from_url(link.url, flush_interval=60)
        for number in range(300):
            counters.incr(f"n{number}")
        link.delay(0.02)
        seen: list[int] = []

        def close() -> None:
            counters.close(30)
            seen.append(sum(truth(any_server, [f"n{number}" for number in range(300)]).values()))

        threads = [threading.Thread(target=close) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert seen == [300, 300, 300]


def test_a_wrong_argument_closes_nothing(any_server: RealServer) -> None:
    """The client goes on as if it had not been asked."""
    counters = Counters.from_url(any_server.url)
    with pytest.raises(TypeError, match="timeout"):
        counters.close("5")  # type: ignore[arg-type]
    counters.incr("x")
    counters.close()
    assert truth(any_server, ["x"]) == {b"x": 1}


@pytest.mark.every(3, "half a second each")
@pytest.mark.parametrize("steps", range(0, 30, 3))
def test_a_close_that_is_cancelled_at_its_end_still_tells(private_server: RealServer, steps: int) -> None:
    """Redis is away, and the time is over when the cancellation comes: the next close() says what is lost."""

    async def main() -> None:
        client = redis.asyncio.Redis(port=private_server.port)
        counters = AsyncioCounters(client, flush_interval=60)
        counters.incr("x", 7)
        private_server.pause()
        try:
            closing = asyncio.create_task(counters.close(0.2))
            while not counters._runner.state.stopped:
                await asyncio.sleep(0.01)
            for _ in range(steps):
                await asyncio.sleep(0)
            closing.cancel()
            (outcome,) = await asyncio.gather(closing, return_exceptions=True)
            if isinstance(outcome, asyncio.CancelledError):
                with pytest.raises(Unavailable) as caught:
                    await counters.close(0.2)
                outcome = caught.value
            assert isinstance(outcome, Unavailable)
            assert outcome.pending == {"x": 7}
            assert counters.stats().undelivered == 1
        finally:
            private_server.resume()
        await client.aclose()

    asyncio.run(main())
