"""A connection that nobody has sent anything over is a reason to ask, whether or not a look is due."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.protocol.write import looks
from tests.faces.either import FACES, Either
from tests.losses.witness import NAMES, count, others_see
from tests.servers import RealServer

KEYS = KeySpace(b"rc", 16)


def lose_all_but(client: Any, name: str) -> None:
    """The buckets of all other counters are empty."""
    kept, _ = KEYS.shard_key(name.encode(), 0)
    for bucket, registry in enumerate(KEYS.registries):
        if bucket != kept:
            tag = registry[: registry.index(b"}") + 1]
            client.delete(registry, *client.keys(tag + b"*"))


@pytest.mark.parametrize("face", FACES)
def test_with_the_next_flush(any_server: RealServer, face: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No look is due, nothing fails, and what is counted meanwhile lies in a bucket that has lost nothing."""
    for pause in ("BUSY_PAUSE_S", "IDLE_PAUSE_S"):
        monkeypatch.setattr(looks, pause, 1e9)
    client: Any = any_server.client()

    async def main() -> None:
        async with Either.on(face, any_server, flush_interval=0.02, reassert_window=1e4) as counters:
            counters.incr(NAMES.other)
            await count(counters, NAMES, 10)
            lose_all_but(client, NAMES.other)
            counters.incr(NAMES.other)
            await counters.flush()
            assert not client.exists(KEYS.shard_key(NAMES.lost[0].encode(), 0)[1]), "nobody asks without a reason"
            client.execute_command("CLIENT", "KILL", "TYPE", "normal")
            counters.incr(NAMES.other)
            await counters.flush()
            await others_see(10, counters, "it does nothing", any_server.url)
            assert counters.stats().failures == 0

    asyncio.run(main())
