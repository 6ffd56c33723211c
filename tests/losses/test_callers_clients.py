"""A client of redis-py that connects anew without a word: for a command of its owner, or for a read that it repeats."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import pytest
import redis
import redis.asyncio

from tests.faces.either import Either, closed, in_turn, once
from tests.losses.places import FailedOver
from tests.losses.witness import NAMES, count, others_see, without_looks
from tests.servers import Kind


def client_at(face: str, url: str, pool: str, **options: Any) -> Any:
    module: Any = redis if face == "blocking" else redis.asyncio
    return module.Redis(
        connection_pool=getattr(module, pool).from_url(url, socket_timeout=5, retry=once(face), **options)
    )


def plain(face: str, place: FailedOver) -> Any:
    """As most code makes it: it repeats a command up to ten times by itself."""
    module: Any = redis if face == "blocking" else redis.asyncio
    host, port = place.url.removeprefix("redis://").removesuffix("/0").split(":")
    return module.Redis(host=host, port=int(port), socket_timeout=5)


CLIENTS: dict[str, Callable[[str, FailedOver], Any]] = {
    "Redis(host, port)": plain,
    "one connection": lambda face, place: client_at(face, place.url, "BlockingConnectionPool", max_connections=1),
    "a pool": lambda face, place: client_at(face, place.url, "ConnectionPool"),
}


async def _set(client: Any, name: str) -> None:
    done = client.set(name, "1")
    if inspect.isawaitable(done):
        await done


@pytest.mark.every(3, "a second each")
@pytest.mark.parametrize(("face", "made", "doing"), in_turn(CLIENTS, ["it counts another", "it reads another"]))
def test_its_owner_was_the_first_to_connect_anew(
    any_kind: Kind, monkeypatch: pytest.MonkeyPatch, face: str, made: str, doing: str
) -> None:
    """The client finds the end of its connections in a SET of its owner's; the counters get one that is sound.

    Where they count, that is noticed by the connection alone.
    """
    if doing == "it counts another":
        without_looks(monkeypatch)
    with ExitStack() as stack:
        place = FailedOver(any_kind, stack)

        async def main() -> None:
            client = CLIENTS[made](face, place)
            async with AsyncExitStack() as after:
                after.push_async_callback(closed, client)
                counters = await after.enter_async_context(Either(face, client, flush_interval=0.02))
                counters.incr(NAMES.other)
                await count(counters, NAMES, 500)
                await _set(client, "before")
                await asyncio.to_thread(place.part)
                await count(counters, NAMES, 700)
                await asyncio.to_thread(place.strike)
                for n in range(3):
                    await _set(client, f"after{n}")
                await others_see(1200, counters, doing, place.holder.url)

        asyncio.run(main())
