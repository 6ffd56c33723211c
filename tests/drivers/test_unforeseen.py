"""An exception in a flush that nobody thought of: it is seen in the figures and told, as any failed flush."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
import redis.asyncio
from redis._parsers import _AsyncRESP3Parser, _RESP3Parser

from redis_counters import CounterError, Event, EventKind, Unavailable
from redis_counters.testing import LossyLink
from tests.faces.either import FACES, Either, closed, truth
from tests.servers import RealServer


def python_parser(face: str, link: LossyLink, **options: Any) -> Any:
    """Return a client without hiredis: redis-py's own parsers make numbers of what comes by int()."""
    module, parser = (redis, _RESP3Parser) if face == "blocking" else (redis.asyncio, _AsyncRESP3Parser)
    pool = module.ConnectionPool.from_url(link.url, parser_class=parser, protocol=3, socket_timeout=5, **options)
    return module.Redis(connection_pool=pool)


@contextmanager
def raised_by_redis_py(monkeypatch: pytest.MonkeyPatch, face: str, error: Exception) -> Iterator[None]:
    """Whatever answer of Redis is read raises this, in redis-py."""
    kind = redis.Connection if face == "blocking" else redis.asyncio.Connection

    def fail(_self: Any, *_: Any, **__: Any) -> Any:
        raise error

    async def fail_asyncio(_self: Any, *_: Any, **__: Any) -> Any:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(kind, "read_response", fail if face == "blocking" else fail_asyncio)
        yield


@pytest.mark.parametrize("error", [MemoryError(), RecursionError("deep"), AttributeError("none"), KeyError("x")])
@pytest.mark.parametrize("face", FACES)
def test_it_is_a_failed_flush(
    any_server: RealServer, face: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures and event are those of a flush that failed, flush() names the error, and it goes on when that is over."""
    events: list[Event] = []

    async def main() -> None:
        async with Either.on(face, any_server, flush_interval=0.01, observer=events.append) as counters:
            counters.incr("x")
            await counters.flush()
            with raised_by_redis_py(monkeypatch, face, error):
                counters.incr("x", 2)
                with pytest.raises(Unavailable, match=type(error).__name__) as caught:
                    await counters.flush(0.3)
                assert caught.value.pending == {"x": 2}
                stats = counters.stats()
                assert stats.failures >= 1
                assert stats.last_error is not None
                assert type(error).__name__ in stats.last_error
            await counters.flush()

    asyncio.run(main())
    kinds = [event.kind for event in events]
    assert kinds.count(EventKind.FLUSH_FAILED) == kinds.count(EventKind.FLUSH_RECOVERED) == 1
    assert truth(any_server, ["x"]) == {b"x": 3}


@pytest.mark.slow("a time-out of 15 s each")
@pytest.mark.parametrize("reply", [b":abc\r\n", b"$abc\r\n", b"*x\r\n", b"*1\r\n:-\r\n", b"%1\r\n"[:2] + b"\r\n"])
@pytest.mark.parametrize("face", FACES)
def test_a_garbled_reply_to_the_python_parser(any_server: RealServer, face: str, reply: bytes) -> None:
    """Its ValueError never leaves a call: errors are ours, told in the figures, and what was counted arrives once."""
    events: list[Event] = []

    async def main(link: LossyLink) -> None:
        client = python_parser(face, link)
        async with Either(face, client, flush_interval=0.01, observer=events.append) as counters:
            counters.incr("x")
            await counters.flush()
            link.replace_reply(reply, every=1)
            counters.incr("x", 2)
            with pytest.raises(Unavailable):
                await counters.flush(0.3)
            with pytest.raises(CounterError):
                await counters.get("x", max_age=0)
            with pytest.raises(CounterError):
                await counters.inspect("x")
            assert counters.stats().failures >= 1
            link.heal()
            await counters.flush(20)
        await closed(client)

    with LossyLink(any_server.url) as link:
        asyncio.run(main(link))
    assert [event.kind for event in events].count(EventKind.FLUSH_FAILED) == 1
    assert truth(any_server, ["x"]) == {b"x": 3}
