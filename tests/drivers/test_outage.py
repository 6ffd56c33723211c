"""Redis is away: counting neither waits nor fails, flush tells in time, and afterwards counts are exact."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest

from redis_counters import Unavailable
from redis_counters.testing import LossyLink
from tests.faces.either import FACES, Either, client_of, closed, once, truth
from tests.servers import RealServer
from tests.waiting import until_async


@pytest.mark.parametrize("face", FACES)
def test_redis_is_down_and_comes_back(private_server: RealServer, face: str) -> None:
    """Killed, and started again on its port: what was counted before (lost with the server), meanwhile and after."""

    async def main() -> None:
        client = client_of(face, private_server, retry=once(face))
        try:
            async with Either(face, client, flush_interval=0.01) as counters:
                counters.incr("x", 10)
                await counters.flush()
                assert await counters.get("x", max_age=0) == 10
                private_server.kill()
                for _ in range(1000):
                    counters.incr("x")
                    counters.decr("y", 2)
                with pytest.raises(Unavailable) as caught:
                    await counters.flush(0.3)
                assert caught.value.pending == {"x": 1000, "y": -2000}
                assert "kept" in str(caught.value)
                counters.incr("x")
                with pytest.raises(Unavailable):
                    await counters.get("y")
                assert await counters.get("x", max_age=float("inf")) == 1011
                assert 1 <= counters.stats().failures < 100  # it pauses between attempts, also while a flush waits
                assert counters.stats().last_error
                with pytest.raises(Unavailable) as caught:
                    await counters.flush(0.05)
                assert caught.value.pending == {"x": 1001, "y": -2000}
                private_server.restart()
                await counters.flush(20)
                assert await counters.get_many(["x", "y"], max_age=0) == {"x": 1011, "y": -2000}
                assert counters.stats().pending == 0
        finally:
            await closed(client)

    asyncio.run(main())
    assert truth(private_server, ["x", "y"]) == {b"x": 1011, b"y": -2000}


@pytest.mark.parametrize("face", FACES)
def test_redis_was_never_there(private_server: RealServer, face: str) -> None:
    """A client made while Redis is down counts, tells what waits, and delivers when Redis has come."""
    private_server.kill()

    async def main() -> None:
        client = client_of(face, private_server, retry=once(face))
        try:
            async with Either(face, client, flush_interval=0.01) as counters:
                counters.incr("x", 2)
                counters.decr("x", 5)
                counters.incr(b"\xff")
                with pytest.raises(Unavailable) as caught:
                    await counters.flush(0.2)
                assert caught.value.pending == {"x": -3, b"\xff": 1}
                counters.incr("x", 10)
                private_server.restart()
                await counters.flush(20)
                assert await counters.get("x", max_age=0) == 7
        finally:
            await closed(client)

    asyncio.run(main())
    assert truth(private_server, ["x", b"\xff"]) == {b"x": 7, b"\xff": 1}


@pytest.mark.parametrize("face", FACES)
def test_redis_hangs(private_server: RealServer, face: str) -> None:
    """A server that answers nothing is waited for no longer than asked; what it had received counts once."""

    async def main(link: LossyLink) -> None:
        client = client_of(face, private_server, port=urlsplit(link.url).port, socket_timeout=0.3)
        try:
            async with Either(face, client, flush_interval=0.01) as counters:
                counters.incr("x")
                await counters.flush()
                for _ in range(2):
                    private_server.pause()
                    try:
                        asked = link.commands.total()
                        for _ in range(100):
                            counters.incr("x")
                        with pytest.raises(Unavailable) as caught:
                            await counters.flush(0.1)
                        assert caught.value.pending["x"] % 100 == 0
                        await until_async(lambda n=asked + 2: link.commands.total() >= n, "it is tried again")  # type: ignore[misc]
                    finally:
                        private_server.resume()
                    await counters.flush(20)
                assert await counters.get("x", max_age=0) == 201
        finally:
            await closed(client)

    with LossyLink(private_server.url) as link:
        asyncio.run(main(link))
    assert truth(private_server, ["x"]) == {b"x": 201}
