"""One test text for both faces: what the asyncio face awaits, the blocking face does at once."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import product
from types import TracebackType
from typing import Any

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncioRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

import redis_counters
import redis_counters.asyncio
from redis_counters import CounterError, CounterValue, Inspection, Stats
from tests.servers import RealServer

FACES = ("blocking", "asyncio")


def in_turn(*axes: Iterable[str]) -> list[tuple[str, ...]]:
    """Return each combination of the values once, with a face before it: neighbours on any axis have another one."""
    combinations = product(*map(enumerate, axes))
    return [(FACES[sum(n for n, _ in row) % 2], *(value for _, value in row)) for row in combinations]


Amounts = dict[str | bytes, int]


class Either:
    """The counters of one face with awaitable methods; leaving it closes them, and the client made here."""

    def __init__(self, face: str, client: Any, **options: Any) -> None:
        module = redis_counters if face == "blocking" else redis_counters.asyncio
        self.counters: Any = module.Counters(client, **options)
        self._methods()
        self._client: Any = None

    def _methods(self) -> None:
        self.incr, self.decr, self.add = self.counters.incr, self.counters.decr, self.counters.add
        self.counter = self.counters.counter

    @classmethod
    def url(cls, face: str, url: str, **options: Any) -> Either:
        """Counters by `from_url`, which own their client."""
        self = cls.__new__(cls)
        module = redis_counters if face == "blocking" else redis_counters.asyncio
        self.counters = module.Counters.from_url(url, **options)
        self._methods()
        self._client = None
        return self

    @classmethod
    def on(cls, face: str, server: RealServer, **options: Any) -> Either:
        """Counters with a plain client of a server; that client is closed with them."""
        client = client_of(face, server)
        self = cls(face, client, **options)
        self._client = client
        return self

    def stats(self) -> Stats:
        stats: Stats = self.counters.stats()
        return stats

    async def background(self, method: str, *arguments: Any) -> Any:
        """Call a method so that others go on meanwhile: in a thread, where the face blocks."""
        call = getattr(self.counters, method)
        if inspect.iscoroutinefunction(call):
            return await call(*arguments)
        return await asyncio.to_thread(call, *arguments)

    async def get(self, name: str | bytes, **options: Any) -> CounterValue:
        value: CounterValue = await _awaited(self.counters.get(name, **options))
        return value

    async def get_many(self, names: Iterable[Any], **options: Any) -> dict[str | bytes, CounterValue]:
        values: dict[str | bytes, CounterValue] = await _awaited(self.counters.get_many(names, **options))
        return values

    async def flush(self, timeout: float | None = None) -> None:
        await _awaited(self.counters.flush(timeout))

    async def close(self, timeout: float = 5.0) -> None:
        await _awaited(self.counters.close(timeout))

    async def reset(self, name: str | bytes) -> int:
        taken: int = await _awaited(self.counters.reset(name))
        return taken

    async def delete(self, name: str | bytes) -> int:
        taken: int = await _awaited(self.counters.delete(name))
        return taken

    async def inspect(self, name: str | bytes) -> Inspection:
        seen: Inspection = await _awaited(self.counters.inspect(name))
        return seen

    async def __aenter__(self) -> Either:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        try:
            if error is None:
                await self.close()
            else:
                with suppress(CounterError):
                    await self.close(1.0)
        finally:
            await closed(self._client)


def client_of(face: str, server: RealServer, **options: Any) -> Any:
    """Return a client of redis-py for the face."""
    module = redis if face == "blocking" else redis.asyncio
    return module.Redis(**{"host": server.host, "port": server.port, "socket_timeout": 10, **options})


def once(face: str) -> Any:
    """Return a policy to try once more, at once: redis-py's default tries ten times, for many seconds."""
    return Retry(NoBackoff(), 1) if face == "blocking" else AsyncioRetry(NoBackoff(), 1)


async def closed(client: Any) -> None:
    """The client, of either face, and its pool are closed; None is none."""
    if client is not None:
        await _awaited(client.aclose() if isinstance(client, redis.asyncio.Redis) else client.close())
        await _awaited(client.connection_pool.disconnect())  # a pool handed to the client is not closed with it


async def _awaited(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


def workload(seed: int, names: int = 60, calls: int = 600) -> list[tuple[str | bytes, int]]:
    """Return calls as (name, signed amount): names of every sort, amounts from one to beyond 2^53, some negative."""
    chance = random.Random(seed)
    known: list[str | bytes] = [f"n{i}" for i in range(names - 20)]
    known += [bytes([0xFF, i, 0x80]) for i in range(10)] + ["", "ü:{x}*\n\0", "a b", "{", "}", b"\r\n$3\r\n", "☃" * 40]
    known += ["100%", "-1", "1+"]
    amounts = [1, 1, 1, 1, 2, -1, -3, 1000, 2**31 + 7, -(2**40), 2**53 + 1]
    return [(chance.choice(known), chance.choice(amounts)) for _ in range(calls)]


def tally(calls: Iterable[tuple[str | bytes, int]]) -> dict[bytes, int]:
    """Return what these calls must add up to, by the bytes of the name."""
    sums: dict[bytes, int] = {}
    for name, amount in calls:
        raw = name.encode() if isinstance(name, str) else name
        sums[raw] = sums.get(raw, 0) + amount
    return sums


def count(counters: Any, calls: Iterable[tuple[str | bytes, int]]) -> None:
    """Make the calls, by whichever of the three methods fits."""
    for name, amount in calls:
        if amount == 1:
            counters.incr(name)
        elif amount < 0:
            counters.decr(name, -amount)
        elif amount % 2:
            counters.add(name, amount)
        else:
            counters.incr(name, amount)


def truth(server: RealServer, names: Iterable[bytes | str], *, db: int = 0, namespace: str = "rc") -> dict[bytes, int]:
    """Return the values that a fresh client of the server reads."""
    client = redis.Redis(host=server.host, port=server.port, db=db, socket_timeout=10)
    raws = [name.encode() if isinstance(name, str) else name for name in names]
    with client, redis_counters.Counters(client, namespace=namespace) as reader:
        return {name_bytes(name): int(value) for name, value in reader.get_many(raws, max_age=0).items()}


def name_bytes(name: str | bytes) -> bytes:
    return name.encode() if isinstance(name, str) else name


def nonzero(sums: Mapping[bytes, int]) -> dict[bytes, int]:
    return {name: amount for name, amount in sums.items() if amount}


def commandstats(server: RealServer) -> dict[str, int]:
    """Return how often each command has been called since `reset_stats`, by its lower-case name."""
    with redis.Redis(host=server.host, port=server.port, socket_timeout=10) as client:
        found: Any = client.info("commandstats")
    return {key.removeprefix("cmdstat_").lower(): int(value["calls"]) for key, value in found.items()}


def reset_stats(server: RealServer) -> None:
    with redis.Redis(host=server.host, port=server.port, socket_timeout=10) as client:
        client.config_resetstat()
