"""The ways of counting that are compared, each with a client of redis-py as it comes.

All count in batches of ten. ``issued``: increments of NAME that were asked for. ``raised``: those whose call ended with
an error, so that the caller knows that they are not counted, or believes it. ``short``: by how much an own read was
less than what had been issued, at most.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.asyncio.sentinel
import redis.cluster
import redis.sentinel

import redis_counters
import redis_counters.asyncio
from redis_counters import CounterError

NAME = "x"
BATCH = 10
FLUSH_TIMEOUT = 2.0
CLOSE_TIMEOUT = 30.0


def connect(address: str, options: dict[str, Any], module: Any = redis) -> Any:
    """Return a client of redis-py: ``redis://...``, ``sentinel://host:port,host:port/name``, ``cluster://...``.

    Not by from_url: such a client does not repeat a command by itself, but ``Redis(host, port)`` does, ten times.
    """
    if address.startswith("redis://"):
        place = urlsplit(address)
        return module.Redis(host=place.hostname, port=place.port, **options)
    scheme, _, rest = address.partition("://")
    places, _, name = rest.partition("/")
    hosts = [(host, int(port)) for host, port in (place.split(":") for place in places.split(","))]
    if scheme == "cluster":
        return module.RedisCluster(startup_nodes=[module.cluster.ClusterNode(*host) for host in hosts], **options)
    return module.sentinel.Sentinel(hosts, **options).master_for(name)


class Incr:
    """Each increment is an INCR."""

    def __init__(self, address: str, options: dict[str, Any]) -> None:
        self.ours = {"flush_interval": 0.01, **options.pop("ours", {})}  # options of this library
        self.address, self.options = address, options
        self.issued = self.raised = self.short = 0
        self.name = NAME  # what is counted
        self.open()

    def open(self) -> None:
        """There is a client."""
        self.client = connect(self.address, self.options)

    def issue(self) -> str:
        """One increment more is asked for; returns of what."""
        self.issued += self.name == NAME
        return self.name

    def refused(self, increments: int = 1) -> None:
        """The last ones ended with an error."""
        self.raised += increments * (self.name == NAME)

    def look(self) -> None:
        """Read what it has counted itself; again, as most code does, if that ends with an error."""
        before = self.issued - self.raised
        for _ in range(20):
            try:
                self.short = max(self.short, before - self.read())
                return
            except (redis.RedisError, CounterError):
                time.sleep(0.2)

    def read(self) -> int:
        return int(self.client.get(NAME) or 0)

    def batch(self) -> None:
        """Ten increments more."""
        for _ in range(BATCH):
            name = self.issue()
            try:
                self.client.incr(name)
            except redis.RedisError:
                self.refused()

    def half(self) -> None:
        """Five increments more, which are as far on their way as they get without an end of the batch."""
        for _ in range(BATCH // 2):
            self.client.incr(self.issue())

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

    def open(self) -> None:
        super().open()
        self.pipeline = self.client.pipeline(transaction=False)

    def batch(self) -> None:
        self._fill(BATCH - len(self.pipeline))
        try:
            self.pipeline.execute()
        except redis.RedisError:
            self.refused(BATCH)
            self.pipeline = self.client.pipeline(transaction=False)  # what was in the old one is not tried again

    def half(self) -> None:
        self._fill(BATCH // 2)

    def _fill(self, more: int) -> None:
        for _ in range(more):
            self.pipeline.incr(self.issue())

    async def _one(self, client: Any, limit: float) -> None:
        pipeline = client.pipeline(transaction=False)
        for _ in range(BATCH):
            self.issued += 1
            pipeline.incr(NAME)
        if not await _cut_short(pipeline.execute(), limit):
            self.raised += BATCH


class Ours(Incr):
    """Increments of this library, flushed after each ten, so that as many commands meet the fault."""

    def open(self) -> None:
        super().open()
        self.counters = redis_counters.Counters(self.client, **self.ours)

    def batch(self) -> None:
        self.half()
        self.half()
        with suppress(CounterError):  # it is kept, and sent again
            self.counters.flush(FLUSH_TIMEOUT)

    def half(self) -> None:
        for _ in range(BATCH // 2):
            self.counters.incr(self.issue())

    def read(self) -> int:
        return int(self.counters.get(NAME, max_age=0))

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


class OursAsyncio(Incr):
    """The same by the asyncio face, in a loop of its own thread."""

    def open(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self._do(self._open())

    async def _open(self) -> None:
        self.client = connect(self.address, self.options, redis.asyncio)
        self.counters = redis_counters.asyncio.Counters(self.client, **self.ours)

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def batch(self) -> None:
        with suppress(CounterError):
            self._do(self._batch())

    async def _batch(self) -> None:
        for _ in range(BATCH):
            self.counters.incr(self.issue())
        await self.counters.flush(FLUSH_TIMEOUT)

    def read(self) -> int:
        return int(self._do(self.counters.get(NAME, max_age=0)))

    def flush(self) -> None:
        self._do(self.counters.flush(CLOSE_TIMEOUT))

    def close(self) -> str:
        try:
            self._do(self.counters.close(CLOSE_TIMEOUT))
        except CounterError as error:
            return str(error)
        self._do(self.client.aclose())
        return ""


async def _cut_short(work: Any, limit: float) -> bool:
    """True if the work was done within the limit; else it was cancelled."""
    task = asyncio.ensure_future(work)
    done, _ = await asyncio.wait({task}, timeout=limit)
    task.cancel()
    with suppress(asyncio.CancelledError, redis.RedisError, CounterError):
        await task
        return bool(done)
    return False


SIDES: dict[str, type[Incr]] = {"incr": Incr, "pipeline": Pipeline, "ours": Ours, "asyncio": OursAsyncio}
BLOCKING = ("incr", "pipeline", "ours")
OURS = ("ours", "asyncio")
