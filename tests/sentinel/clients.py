"""Clients of Sentinels, of either face, made by redis-py and handed in."""

from __future__ import annotations

from typing import Any

import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel

from tests.faces.either import closed, once
from tests.topologies import WATCHED, Sentinels


class HandedIn:
    """A client that asks Sentinels where the primary is, and what it asks them with."""

    def __init__(self, face: str, sentinels: Sentinels, **options: Any) -> None:
        module: Any = redis if face == "blocking" else redis.asyncio
        self.finder = module.sentinel.Sentinel(
            sentinels.addresses, sentinel_kwargs={"retry": once(face), "socket_timeout": 5}, socket_timeout=5, **options
        )
        self.client = self.finder.master_for(WATCHED)

    async def close(self) -> None:
        for client in (self.client, *self.finder.sentinels):
            await closed(client)
