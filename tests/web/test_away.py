"""Redis does not answer: people are told so, streams show the last numbers, and all goes on afterwards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from starlette.types import ASGIApp

from redis_counters.demo.web.app import make_app
from redis_counters.demo.web.settings import Settings
from tests.servers import RealServer
from tests.waiting import until_async
from tests.web.running import JSON


@asynccontextmanager
async def lifespan(app: ASGIApp) -> AsyncIterator[None]:
    """What a server does with an application before and after it serves."""
    inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    outbox: asyncio.Queue[Any] = asyncio.Queue()

    async def run() -> None:
        await app({"type": "lifespan", "state": {}}, inbox.get, outbox.put)

    task = asyncio.create_task(run())
    await inbox.put({"type": "lifespan.startup"})
    assert (await outbox.get())["type"] == "lifespan.startup.complete"
    try:
        yield
    finally:
        await inbox.put({"type": "lifespan.shutdown"})
        assert (await outbox.get())["type"] == "lifespan.shutdown.complete"
        await task


def test_redis_is_away(private_server: RealServer) -> None:
    """503, with a time to wait; a click is refused and not half taken: repeated later, it counts once."""

    async def main() -> None:
        settings = Settings(private_server.url, private_server.url, "secret", "127.0.0.1")
        app = make_app(settings)
        here = "http://localhost:8000"
        transport = httpx.ASGITransport(app)
        async with (
            lifespan(app),
            httpx.AsyncClient(transport=transport, base_url=here, headers={"origin": here}) as ann,
        ):
            await ann.get("/")
            assert (await ann.post("/posts/1/like", data={"liked": "yes"}, headers=JSON)).json() == {
                "likes": 1,
                "liked": True,
                "number": 1,
            }
            private_server.terminate()
            for answer in (
                await ann.get("/", headers=JSON),
                await ann.get("/state", headers=JSON),
                await ann.post("/posts/2/like", data={"liked": "yes"}, headers=JSON),
                await ann.post("/switches/crowd", data={"on": "yes"}, headers=JSON),
            ):
                assert answer.status_code == 503, answer.text
                assert answer.headers["retry-after"] == "1"
                assert answer.json() == {"error": "Redis does not answer at the moment. Nothing is lost; try again."}
            assert "Redis does not answer" in (await ann.get("/")).text
            private_server.restart()  # with nothing kept: it is another one

            async def counted() -> bool:
                answer = await ann.post("/posts/2/like", data={"liked": "yes", "number": "1"}, headers=JSON)
                return answer.status_code == 200 and answer.json() == {"likes": 1, "liked": True, "number": 1}

            await until_async(counted, "it goes on")
            assert (await ann.get("/state")).json()["mine"] == [2]

    asyncio.run(main())


def test_streams_show_the_last_numbers(private_server: RealServer) -> None:
    """Marked as such, so that the page can say so."""

    async def main() -> None:
        settings = Settings(private_server.url, private_server.url, "secret", "127.0.0.1")
        app = make_app(settings)
        async with lifespan(app):
            demo = app._app.state.demo  # type: ignore[attr-defined]
            await demo.counters.likes("post:1").like("ann")
            states: list[dict[str, Any]] = []

            async def follow() -> None:
                async for event in demo.live.stream():
                    states.extend([json.loads(event[6:])] if event.startswith(b"data: ") else [])

            following = asyncio.create_task(follow())
            await until_async(lambda: states and states[-1]["likes"][0] == 1, "the first state")
            private_server.terminate()
            await until_async(lambda: states[-1]["stale"], "it is known to be old")
            assert states[-1]["likes"][0] == 1
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    asyncio.run(main())
