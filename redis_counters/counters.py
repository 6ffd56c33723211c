"""The blocking face: `Counters` and `Counter`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any

from redis_counters.drivers.dropped import when_dropped
from redis_counters.drivers.threads import ThreadRunner
from redis_counters.events import Event
from redis_counters.face import CounterBase, CountersBase, make_core, names_bytes, nothing
from redis_counters.face_keyed import KeyedCounters
from redis_counters.protocol.durability import Durability
from redis_counters.protocol.expiries import Expiry
from redis_counters.protocol.settings import check_age, checked_age
from redis_counters.protocol.values import CounterValue, Name, name_bytes

if TYPE_CHECKING:
    from redis_counters.protocol.inspection import Inspection


class Counters(CountersBase, KeyedCounters):
    """Counters on one Redis deployment: any number of names, any number of threads.

    Increments are added up in memory and reach Redis within ``flush_interval``; what this process counted, it reads at
    once. Options: docs/reference/options.md.

    Raises: TypeError, UsageError for an option that is not accepted; nothing is sent yet.
    """

    _runner: ThreadRunner

    def __init__(
        self,
        client: Any,
        *,
        namespace: str = "rc",
        region: str = "main",
        actor: str | None = None,
        shards: int | Mapping[str, int] = 1,
        flush_interval: float = 0.1,
        max_batch: int = 500,
        max_pending: int = 1_000_000,
        on_full: str = "raise",
        max_age: float = 1.0,
        durability: Durability | None = None,
        journal: str | os.PathLike[str] | None = None,
        journal_mode: str = "interval",
        reassert_window: float = 60.0,
        actor_ttl: float = 3600.0,
        retention: float = 86400.0,
        buckets: int = 16,
        rotate_slots: int = 10_000,
        rotate_age: float = 3600.0,
        observer: Callable[[Event], None] | None = None,
    ) -> None:
        options = {
            "namespace": namespace,
            "region": region,
            "shards": shards,
            "flush_interval": flush_interval,
            "max_batch": max_batch,
            "max_pending": max_pending,
            "on_full": on_full,
            "max_age": max_age,
            "durability": durability,
            "journal": journal,
            "journal_mode": journal_mode,
            "reassert_window": reassert_window,
            "actor_ttl": actor_ttl,
            "retention": retention,
            "buckets": buckets,
            "rotate_slots": rotate_slots,
            "rotate_age": rotate_age,
        }
        core = make_core(client, asyncio=False, actor=actor, observer=observer, options=options)
        self._runner = ThreadRunner(core, client)
        self._begin(core, self._runner)
        when_dropped(self, self._runner.drop)
        self._stop: Callable[[], None] = nothing

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Counters:
        """Return counters on the Redis at a URL, with a client of their own that `close` ends too.

        Schemes: redis, rediss, unix, valkey, valkeys, embedded, memory.
        Raises: UsageError for the URL or an option.
        """
        from redis_counters.drivers.urls import open_url

        opened = open_url(url, asyncio=False)
        try:
            self = cls(opened.client, **options)
        except BaseException:
            opened.stop()
            raise
        self._stop = self._runner.stop_client = opened.stop_all
        return self

    def __enter__(self) -> Counters:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def get(self, name: Name, *, max_age: float | None = None) -> CounterValue:
        """Return the counter's value, 0 for an unknown name. It includes all that this process has counted.

        Staleness: of other processes' counts, at most ``max_age`` seconds (default: the option) plus their
        ``flush_interval``; 0 asks Redis, infinity takes whatever is known.
        Cost: none from the cache; else one round trip, O(slots).
        Raises: Unavailable, WrongType, NotPermitted.
        """
        raw = name if type(name) is bytes else name_bytes(name)
        if max_age is None and (value := self._core.reads.at_hand(raw)) is not None:
            return value
        return (self._runner.read((raw,), checked_age(max_age)))[raw]

    def get_many(self, names: Iterable[Name], *, max_age: float | None = None) -> dict[Name, CounterValue]:
        """Return values by name, each as `get` would; keys are the names as given.

        Cost: one round trip for all that is not in the cache.
        """
        wanted = names_bytes(names)
        values = self._runner.read(wanted.values(), checked_age(max_age))
        return {name: values[raw] for name, raw in wanted.items()}

    def counter(
        self,
        name: Name,
        *,
        shards: int | None = None,
        expire_at: float | datetime | None = None,
    ) -> Counter:
        """Return a handle on a counter; ``shards`` is recorded as its number of shards, which only grows.

        ``expire_at`` (epoch seconds, or a datetime with a time zone): then Redis removes the counter, all its shards
        together, and what is counted or arrives later does not count. The moment goes along with each flush, so the
        counter is never there without it; of two moments the later one holds, and a later one brings it to life again.
        Name it wherever the counter is counted; `incr_once`, `likes`, `seed` and `adopt` do not know it.
        Raises: TypeError, UsageError (also for a moment in the past).
        """
        raw = name_bytes(name)
        return Counter(self, raw, self._runner.declare(raw, shards, expire_at))

    def flush(self, timeout: float | None = None) -> None:
        """All that was buffered when called is in Redis.

        ``timeout``: seconds, default 30.
        Raises: Unavailable with ``.pending`` (kept, and sent later by itself); Refused for a counter that Redis, or
        the range of a slot, refuses: all others are in Redis.
        """
        self._runner.flush(checked_age(timeout, "timeout"))

    def close(self, timeout: float = 5.0) -> None:
        """All that was counted is in Redis, its slots are folded, and the client is done; calling again does nothing.

        ``timeout``: seconds.
        Raises as `flush`; what is not in Redis then is in ``.pending``, and lost with the process.
        """
        limit = check_age("timeout", timeout)
        try:
            self._runner.close(limit)
        finally:
            if self._runner.over:  # else it was interrupted, and may go on
                stop, self._stop = self._stop, nothing
                stop()

    def inspect(self, name: Name) -> Inspection:
        """Return what Redis holds of a counter: shards, slots, actors.

        Cost: up to 2 round trips per shard and one more; O(slots).
        """
        from redis_counters.protocol.inspection import inspect

        return self._runner.ask(inspect(self._core.reads, name))


class Counter(CounterBase):
    """A handle on one counter. `incr` here is the fastest way to count."""

    __slots__ = ("_core", "_counters")

    def __init__(self, counters: Counters, name: bytes, expiry: Expiry | None) -> None:
        super().__init__(counters, name, expiry)
        self._counters = counters
        self._core = counters._core

    def value(self, *, max_age: float | None = None) -> CounterValue:
        """Return the value; as `Counters.get`."""
        if max_age is None and (value := self._core.reads.at_hand(self._name)) is not None:
            return value
        return self._counters.get(self._name, max_age=max_age)
