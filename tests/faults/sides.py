"""The three ways of counting that are compared, each with a client of redis-py as it comes.

All count in batches of ten. ``issued``: increments asked for. ``raised``: increments whose call ended with an error, so
that the caller knows that they are not counted, or believes it.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import redis
import redis.asyncio
import redis.sentinel

import redis_counters
import redis_counters.asyncio
from redis_counters import CounterError

NAME = "x"
BATCH = 10
SENTINEL = "sentinel://"
FLUSH_TIMEOUT = 2.0
CLOSE_TIMEOUT = 30.0


def connect(address: str, options: dict[str, Any], module: Any = redis) -> Any:
    """Return a client of redis-py: ``redis://...``, or ``sentinel://host:port,host:port/name``.

    Not by from_url: such a client does not repeat a command by itself, but ``Redis(host, port)`` does, ten times.
    """
    if not address.startswith(SENTINEL):
        place = urlsplit(address)
        return module.Redis(host=place.hostname, port=place.port, **options)
    places, name = address.removeprefix(SENTINEL).split("/")
    hosts = [(host, int(port)) for host, port in (place.split(":") for place in places.split(","))]
    sentinel: Any = module.sentinel.Sentinel
    return sentinel(hosts, **options).master_for(name)


class Incr:
    """Each increment is an INCR."""

    def __init__(self, address: str, options: dict[str, Any]) -> None:
        self.ours = {"flush_interval": 0.01, **options.pop("ours", {})}  # options of this library
        self.address, self.options = address, options
        self.issued = self.raised = 0
        self.client = connect(address, options)

    def batch(self) -> None:
        """Ten increments more."""
        for _ in range(BATCH):
            self.issued += 1
            try:
                self.client.incr(NAME)
            except redis.RedisError:
                self.raised += 1

    def half(self) -> None:
        """Five increments more, which are as far on their way as they get without an end of the batch."""
        for _ in range(BATCH // 2):
            self.issued += 1
            self.client.incr(NAME)

    def forked(self) -> None:
        """In a child: it answers for what it counts itself."""
        self.issued = self.raised = 0

    def flush(self) -> None:
        """All that was counted is in Redis."""

    def close(self) -> str:
        """The end. Returns what went wrong."""
        self.client.close()
        return ""

    async def cancelled(self, batches: int, chance: random.Random, longest: float) -> None:
        """Count in tasks, each of them cancelled at some moment up to ``longest`` seconds."""
        client = connect(self.address, self.options, redis.asyncio)
        try:
            for _ in range(batches):
                await asyncio.gather(*(self._one(client, chance.uniform(0, longest)) for _ in range(BATCH)))
        finally:
            await client.aclose()

    async def _one(self, client: Any, limit: float) -> None:
        self.issued += 1
        if not await _cut_short(client.incr(NAME), limit):
            self.raised += 1


class Pipeline(Incr):
    """Ten increments are a pipeline of INCRs, without MULTI."""

    def __init__(self, address: str, options: dict[str, Any]) -> None:
        super().__init__(address, options)
        self.pipeline = self.client.pipeline(transaction=False)

    def batch(self) -> None:
        self._fill(BATCH - len(self.pipeline))
        try:
            self.pipeline.execute()
        except redis.RedisError:
            self.raised += BATCH
            self.pipeline = self.client.pipeline(transaction=False)  # what was in the old one is not tried again

    def half(self) -> None:
        self._fill(BATCH // 2)

    def _fill(self, more: int) -> None:
        for _ in range(more):
            self.issued += 1
            self.pipeline.incr(NAME)

    async def _one(self, client: Any, limit: float) -> None:
        pipeline = client.pipeline(transaction=False)
        for _ in range(BATCH):
            self.issued += 1
            pipeline.incr(NAME)
        if not await _cut_short(pipeline.execute(), limit):
            self.raised += BATCH


class Ours(Incr):
    """Increments of this library, flushed after each ten, so that as many commands meet the fault."""

    def __init__(self, address: str, options: dict[str, Any]) -> None:
        super().__init__(address, options)
        self.counters = redis_counters.Counters(self.client, **self.ours)

    def batch(self) -> None:
        self.half()
        self.half()
        with suppress(CounterError):  # it is kept, and sent again
            self.counters.flush(FLUSH_TIMEOUT)

    def half(self) -> None:
        for _ in range(BATCH // 2):
            self.issued += 1
            self.counters.incr(NAME)

    def flush(self) -> None:
        self.counters.flush(CLOSE_TIMEOUT)

    def close(self) -> str:
        try:
            self.counters.close(CLOSE_TIMEOUT)
        except CounterError as error:
            return str(error)
        return super().close()

    async def cancelled(self, batches: int, chance: random.Random, longest: float) -> None:
        client = connect(self.address, self.options, redis.asyncio)
        async with redis_counters.asyncio.Counters(client, **self.ours) as counters:
            for _ in range(batches):
                for _ in range(BATCH):
                    self.issued += 1
                    counters.incr(NAME)
                    if not self.issued % 3:
                        await _cut_short(counters.flush(), chance.uniform(0, longest))
        await client.aclose()


async def _cut_short(work: Any, limit: float) -> bool:
    """True if the work was done within the limit; else it was cancelled."""
    task = asyncio.ensure_future(work)
    done, _ = await asyncio.wait({task}, timeout=limit)
    task.cancel()
    with suppress(asyncio.CancelledError, redis.RedisError, CounterError):
        await task
        return bool(done)
    return False


SIDES: dict[str, type[Incr]] = {"incr": Incr, "pipeline": Pipeline, "ours": Ours}
