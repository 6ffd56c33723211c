"""Batches of any size go in pieces: no command holds the server up, and a piece that arrived is not sent again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar, cast

import pytest
import redis
import redis.asyncio

from redis_counters import Unavailable
from redis_counters.testing import LossyLink
from tests.faces.either import FACES, Either, closed, commandstats, reset_stats, truth
from tests.servers import RealServer

LONGEST = 100_000  # microseconds of one command; they take a tenth of that and less
SLOTS = 20_000
ATTEMPTS = 3

Test = TypeVar("Test", bound=Callable[..., None])


class SlowCommandsError(AssertionError):
    """The server's own log has commands that took long."""


def tried_again(test: Test) -> Test:
    """A command may take long because the machine is busy with other things, but not each time."""

    @wraps(test)
    def repeated(any_server: RealServer, **given: Any) -> None:
        for attempt in range(ATTEMPTS):
            try:
                test(any_server, **given)
                break
            except SlowCommandsError:
                if attempt == ATTEMPTS - 1:
                    raise
                any_server.client().flushall()

    return cast(Test, repeated)


@contextmanager
def watched(server: RealServer) -> Iterator[None]:
    """No command of the block takes longer by the server's own log of slow ones, reads of others' hashes included."""
    client: Any = server.client()
    client.config_set("slowlog-log-slower-than", LONGEST)
    client.slowlog_reset()
    with server.ahead():
        yield
    slow = [(entry["command"][:40], entry["duration"]) for entry in client.slowlog_get()]
    if slow:
        raise SlowCommandsError(slow)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.slow("tens of thousands of names")
@tried_again
def test_tens_of_thousands_of_names_after_an_outage(any_server: RealServer, face: str) -> None:
    """50,000 names that waited go out in chunks of at most max_batch, each once; none holds the server up."""
    names = [f"n{i}" for i in range(50_000)]

    async def main(link: LossyLink) -> None:
        module: Any = redis if face == "blocking" else redis.asyncio
        client = module.Redis.from_url(link.url)
        try:
            async with Either(face, client, flush_interval=0.01) as counters:
                counters.incr("first")
                await counters.flush()
                link.stop()
                for name in names:
                    counters.incr(name)
                with pytest.raises(Unavailable) as caught:
                    await counters.flush(0.2)
                assert len(caught.value.pending) == 50_000
                link.start()
                reset_stats(any_server)
                with watched(any_server):
                    await counters.flush(60)
                sent = commandstats(any_server)
                assert 50_000 / 500 <= sent["evalsha"] <= 50_000 / 500 + 3 * 16 + 5
                assert sent["hset"] + sent.get("hsetnx", 0) < 50_000 * 2.2
                assert counters.stats().pending == 0
        finally:
            await closed(client)

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))
    with watched(any_server):
        values = truth(any_server, names)
    assert len(values) == 50_000
    assert set(values.values()) == {1}


@pytest.mark.parametrize("face", FACES)
def test_chunks_that_arrived_are_not_sent_again(any_server: RealServer, face: str) -> None:
    """A connection that breaks in the middle of many chunks costs a repetition of those unanswered, no others."""

    async def main(link: LossyLink) -> None:
        module: Any = redis if face == "blocking" else redis.asyncio
        client = module.Redis.from_url(link.url)
        try:
            async with Either(face, client, flush_interval=60, max_batch=10, buckets=4) as counters:
                counters.incr("first")
                await counters.flush()
                for i in range(400):
                    counters.incr(f"n{i}")
                link.drop_reply(every=15, times=2, commands=["EVALSHA"])
                before = link.commands["EVALSHA"]
                await counters.flush(20)
                assert link.dropped == 2
                chunks = 400 / 10
                assert chunks <= link.commands["EVALSHA"] - before <= chunks + 4 + 3 + 2 * 4
                link.heal()
        finally:
            await closed(client)

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))
    assert set(truth(any_server, [f"n{i}" for i in range(400)]).values()) == {1}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("max_batch", [1, 7, 2000])
@tried_again
def test_every_piece_is_as_small_as_asked(any_server: RealServer, face: str, max_batch: int) -> None:
    """However many wait: no script is given more counters than max_batch, when flushing and when folding."""
    seen: list[int] = []

    async def main() -> None:
        async with Either.on(face, any_server, flush_interval=60, max_batch=max_batch, buckets=2) as counters:
            writer = counters.counters._core.writer
            ask = writer.next_request

            def overheard(now: float) -> Any:
                request = ask(now)
                if request is not None:
                    seen.append(len(request.command.keys) - 2)
                return request

            writer.next_request = overheard
            for i in range(3000 if max_batch > 1 else 200):
                counters.incr(f"n{i}")
                counters.decr(f"n{i}", 2)
            with watched(any_server):
                await counters.flush(60)

    with watched(any_server):
        asyncio.run(main())
    assert max(seen) <= max_batch
    assert len(seen) >= (6000 if max_batch > 1 else 400) / max_batch


@pytest.mark.parametrize("face", FACES)
@pytest.mark.slow("tens of thousands of slots")
@tried_again
def test_a_counter_with_tens_of_thousands_of_slots(any_server: RealServer, face: str) -> None:
    """Read alone, among others, and inspected; counted in; folded by its own client: the server is never held up."""
    client: Any = any_server.client()

    async def main() -> None:
        async with Either.on(face, any_server, buckets=1) as counters:
            counters.incr("x")
            await counters.flush()
            (key,) = client.keys("*:c:0:x")
            for start in range(0, SLOTS, 1000):
                client.hset(key, mapping={f"gen00.{n}.abcd+": n for n in range(start, start + 1000)})
            total = SLOTS * (SLOTS - 1) // 2
            with watched(any_server):
                for n in range(1, 4):
                    assert await counters.get("x", max_age=0) == total + n
                    assert await counters.get_many(["x", "y"], max_age=0) == {"x": total + n, "y": 0}
                    counters.incr("x")
                    await counters.flush()
                assert (await counters.inspect("x")).value == total + 4

    with watched(any_server):
        asyncio.run(main())
    assert truth(any_server, ["x"]) == {b"x": SLOTS * (SLOTS - 1) // 2 + 4}
