"""The asyncio face: `Counters` and `Counter`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from redis_counters.asyncio.bounded import BoundedCounters
from redis_counters.drivers.pacing import all_of
from redis_counters.drivers.process.finalizer import when_dropped
from redis_counters.drivers.process.fork_hooks import here
from redis_counters.drivers.redis_py.transports import transport_of_asyncio
from redis_counters.drivers.tasks import TaskRunner
from redis_counters.errors import Refused, not_applied
from redis_counters.face import CounterBase, CountersBase, NotBlocking, check_options, make_core, named, names_bytes
from redis_counters.protocol.wire.options import Options, check_names, takes_options
from redis_counters.protocol.wire.settings import check_age, checked_age
from redis_counters.protocol.wire.values import CounterValue, N, Name, name_bytes
from redis_counters.protocol.write.expiries import Expiry

if TYPE_CHECKING:
    import redis.asyncio
    from typing_extensions import Unpack

    from redis_counters.protocol.read.inspection import Inspection


class Counters(NotBlocking, CountersBase, BoundedCounters):
    """Counters on one Redis deployment: any number of names, any number of tasks of one event loop.

    Increments are added up in memory and reach Redis within ``flush_interval``; what this process counted, it reads at
    once. Options: page "Options".

    Raises: TypeError, UsageError for an option that is not accepted; nothing is sent yet.

    >>> from redis_counters.asyncio import Counters
    >>> async with Counters.from_url("redis://localhost:6379", flush_interval=0.5) as counters:
    ...     counters.incr("likes:post:42")
    ...     likes = counters.counter("likes:post:42")
    ...     likes.incr(2)
    ...     await likes.value()
    ...     await counters.get_many(["likes:post:42", "likes:post:43"])
    3
    {'likes:post:42': 3, 'likes:post:43': 0}
    """

    _runner: TaskRunner

    @takes_options
    def __init__(self, client: redis.asyncio.Redis | redis.asyncio.RedisCluster, **options: Unpack[Options]) -> None:
        check_names("Counters()", options)
        transport = transport_of_asyncio(client)
        core = make_core(transport, asyncio=True, options=options)
        self._runner = TaskRunner(core, transport)
        self._begin(core, self._runner)
        when_dropped(self, self._runner.ending.drop)

    @classmethod
    def from_url(cls, url: str, **options: Unpack[Options]) -> Counters:
        """Return counters on the Redis at a URL, with a client of their own that `close` ends too.

        Schemes: redis, rediss, unix, valkey, valkeys; all but unix with +cluster or +sentinel; embedded, memory.
        Raises: UsageError for the URL or an option.
        """
        from redis_counters.drivers.urls import open_url

        check_options(cls, options)
        opened = open_url(url, asyncio=True)
        try:
            self = cls(opened.client, **options)
        except BaseException:
            opened.stop()
            raise
        self._runner.ending.stop_client = opened.stop_all_asyncio
        return self

    async def __aenter__(self) -> Counters:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    async def get(self, name: Name, *, max_age: float | None = None) -> CounterValue:
        """Return the counter's value, 0 for an unknown name. It includes all that this process has counted.

        Staleness: of other processes' counts, at most ``max_age`` seconds (default: the option) plus their
        ``flush_interval``; 0 asks Redis, infinity takes whatever is known.
        Cost: none from the cache; else one round trip, O(slots).
        Raises: Unavailable, WrongType, NotPermitted.
        """
        raw = name if type(name) is bytes else name_bytes(name)
        if max_age is None and here and (value := self._core.reads.cache.cached_nowait(raw)) is not None:
            return value
        return (await self._runner.read((raw,), checked_age(max_age)))[raw]

    async def get_many(self, names: Iterable[N], *, max_age: float | None = None) -> dict[N, CounterValue]:
        """Return values by name, each as `get` would; keys are the names as given.

        Cost: one round trip for all that is not in the cache.
        Raises: as `get`. Where Redis refuses some of them (WrongType), the error has the ``values`` of all others, the
        ``errors`` of those, by name as given, and their ``keys``.
        """
        wanted = names_bytes(names)
        try:
            values = await self._runner.read(wanted.values(), checked_age(max_age))
        except Refused as error:
            raise named(error, wanted) from None
        return dict(zip(wanted, map(values.__getitem__, wanted.values()), strict=True))

    def counter(
        self,
        name: Name,
        *,
        shards: int | Literal["auto"] | None = None,
        expire_at: float | datetime | None = None,
    ) -> Counter:
        """Return a handle on a counter; ``shards`` is recorded as its number of shards, which only grows.

        ``"auto"``: that number follows from how often the counter is written to (page "Shard a hot counter").
        ``expire_at`` (epoch seconds, or a datetime with a time zone): then Redis removes the counter, all its shards
        together, and what is counted or arrives later does not count. The moment goes along with each flush, so the
        counter is never there without it; of two moments the later one holds, and a later one brings it to life again.
        Name it wherever the counter is counted; `incr_once`, `likes`, `seed` and `adopt` do not know it.
        Raises: TypeError, UsageError (also for a moment in the past).
        """
        raw = name_bytes(name)
        return Counter(self, raw, self._runner.declare(raw, shards, expire_at))

    async def flush(self, timeout: float | None = None) -> None:
        """All that was buffered when called is in Redis.

        ``timeout``: seconds, default 30.
        Raises: Unavailable with ``.pending`` (kept, and sent later by itself); Refused for a counter that Redis, or
        the range of a slot, refuses: all others are in Redis.
        """
        await self._runner.flush(checked_age(timeout, "timeout"))

    async def close(self, timeout: float = 5.0) -> None:
        """All that was counted is in Redis, its slots are folded, and the client is done; calling again does nothing.

        ``timeout``: seconds.
        Raises as `flush`; what is not in Redis then is in ``.pending``, and lost with the process.
        """
        limit = check_age("timeout", timeout)
        try:
            await self._runner.close(limit)
        finally:
            if self._runner.state.over:  # else it was interrupted, and may go on
                await self._runner.ending.end_client()

    async def reset(self, name: Name) -> int:
        """The counter is 0, wherever it is read: what Redis holds of it counts no more. Return how much that was.

        What this process has counted is flushed first. What other processes count at the same time stays: of what they
        had not sent to Redis yet, nothing is taken away. All likes are gone; keys of `incr_once` that have counted do
        not count again before their ttl is over; a seed counts only what it is raised by. Two resets at the same time
        take away nothing twice, and it may be repeated: after a reply that was lost, it returns what came since.
        Cost: what `flush` costs, and 2 to 5 round trips; O(slots).
        Raises: as `flush`; Unconfirmed with `durability`, if it is applied but not durable; WrongType, NotPermitted.
        """
        from redis_counters.drivers.tasks.resetting import taken_away

        return await taken_away(self._runner, name_bytes(name), delete=False)

    async def delete(self, name: Name) -> int:
        """The counter is 0, and nothing of it is left in Redis; it may be counted again at once. Return what it was.

        As `reset`, but for this: seeds are forgotten, so one that is repeated counts as a whole; of what other
        processes had sent, without an answer yet, something may stay. The number of shards stays, if it is more
        than one. Where the counter is in several regions, it is deleted in all, and kept in mind until all know.
        """
        from redis_counters.drivers.tasks.resetting import taken_away

        return await taken_away(self._runner, name_bytes(name), delete=True)

    async def inspect(self, name: Name) -> Inspection:
        """Return what Redis holds of a counter: shards, slots, actors.

        Cost: up to 2 round trips per shard and two more; O(slots).
        Raises: WrongType, NotPermitted, Unavailable. Where one of several shards is refused, the error's ``inspection``
        has the others, and its ``keys`` name the shard.
        """
        from redis_counters.protocol.read.inspection import inspect

        with not_applied:
            return await self._runner.ask(all_of(inspect(self._core.reads, name)))


class Counter(CounterBase):
    """A handle on one counter. `incr` here is the fastest way to count."""

    __slots__ = ("_core", "_counters")

    def __init__(self, counters: Counters, name: bytes, expiry: Expiry | None) -> None:
        super().__init__(counters, name, expiry)
        self._counters = counters
        self._core = counters._core

    async def value(self, *, max_age: float | None = None) -> CounterValue:
        """Return the value; as `Counters.get`."""
        if max_age is None and here and (value := self._core.reads.cache.cached_nowait(self._name)) is not None:
            return value
        return await self._counters.get(self._name, max_age=max_age)

    async def reset(self) -> int:
        """The counter is 0; return what it was. As `Counters.reset`."""
        return await self._counters.reset(self._name)

    async def delete(self) -> int:
        """The counter is gone; return what it was. As `Counters.delete`."""
        return await self._counters.delete(self._name)
