"""The blocking face: `Counters` and `Counter`."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from redis_counters.drivers.chance import default_display, mint
from redis_counters.drivers.redis_py import Client, is_asyncio, pool_of
from redis_counters.drivers.threads import ThreadRunner
from redis_counters.drivers.urls import open_url
from redis_counters.errors import UsageError
from redis_counters.protocol.core import Core, Inspection
from redis_counters.protocol.settings import check_age, make_settings
from redis_counters.protocol.stats import Stats
from redis_counters.protocol.values import CounterValue, Name, name_bytes, name_shown, signed_amount, unsigned_amount

_ONE = 1  # `amount is _ONE` holds for the int 1 alone, not for True: the cheapest check there is


class Counters:
    """Counters on one Redis deployment: any number of names, any number of threads.

    Increments are added up in memory and reach Redis within ``flush_interval``; what this process counted, it reads at
    once. Options: docs/reference/options.md.

    Raises: TypeError, UsageError for an option that is not accepted; nothing is sent yet.
    """

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
        reassert_window: float = 60.0,
        buckets: int = 16,
        rotate_slots: int = 10_000,
        rotate_age: float = 3600.0,
    ) -> None:
        pool_of(client)
        if is_asyncio(client):
            raise UsageError("client is one of redis.asyncio: use redis_counters.asyncio.Counters")
        settings = make_settings(
            namespace=namespace,
            region=region,
            actor=default_display() if actor is None else actor,
            shards=shards,
            flush_interval=flush_interval,
            max_batch=max_batch,
            max_pending=max_pending,
            on_full=on_full,
            max_age=max_age,
            reassert_window=reassert_window,
            buckets=buckets,
            rotate_slots=rotate_slots,
            rotate_age=rotate_age,
        )
        self._core = Core(settings, mint, time.monotonic, time.time, random.random)
        self._runner = ThreadRunner(self._core, client)
        self._ones = self._core.buffer.ones
        self._wake = self._runner.wake
        self._stop = _nothing

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Counters:
        """Return counters on the Redis at a URL, with a client of their own that `close` ends too.

        Schemes: redis, rediss, unix, valkey, valkeys, embedded, memory.
        Raises: UsageError for the URL or an option.
        """
        opened = open_url(url, asyncio=False)
        try:
            self = cls(opened.client, **options)
        except BaseException:
            opened.client.close()
            opened.stop()
            raise
        self._stop = opened.stop_all
        return self

    def __enter__(self) -> Counters:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.Counters namespace={self._core.settings.namespace.decode()!r}>"

    def incr(self, name: Name, amount: int = 1) -> None:
        """The counter is higher by ``amount`` (an int, 0 or more), and this process reads it so at once.

        Cost: no I/O; about 0.1 microseconds.
        Raises: TypeError, UsageError for the name or amount; Overflow for an amount that no slot has room for;
        BufferFull if `max_pending` names wait for Redis. Nothing is counted then.
        """
        if amount is _ONE and (type(name) is bytes or (type(name) is str and name.isascii())):
            ones = self._ones
            if not ones and self._wake(name, 1):
                return
            ones.append(name)
        else:
            self._add(name_bytes(name), unsigned_amount(amount, name))

    def decr(self, name: Name, amount: int = 1) -> None:
        """The counter is lower by ``amount`` (an int, 0 or more); otherwise as `incr`."""
        self._add(name_bytes(name), -unsigned_amount(amount, name))

    def add(self, name: Name, amount: int) -> None:
        """The counter is higher by a signed ``amount``; otherwise as `incr`."""
        self._add(name_bytes(name), signed_amount(amount, name))

    def _add(self, name: bytes, amount: int) -> None:
        if self._core.buffer or not self._wake(name, amount):
            self._runner.add(name, amount)

    def get(self, name: Name, *, max_age: float | None = None) -> CounterValue:
        """Return the counter's value, 0 for an unknown name. It includes all that this process has counted.

        Staleness: of other processes' counts, at most ``max_age`` seconds (default: the option) plus their
        ``flush_interval``; 0 asks Redis, infinity takes whatever is known.
        Cost: none from the cache; else one round trip, O(slots).
        Raises: Unavailable, WrongType, NotPermitted.
        """
        raw = name_bytes(name)
        return self._runner.read_one(raw, None if max_age is None else check_age("max_age", max_age))

    def get_many(self, names: Iterable[Name], *, max_age: float | None = None) -> dict[Name, CounterValue]:
        """Return values by name, each as `get` would; keys are the names as given.

        Cost: one round trip for all that is not in the cache.
        """
        wanted = {name: name_bytes(name) for name in names}
        values = self._runner.read(wanted.values(), None if max_age is None else check_age("max_age", max_age))
        return {name: values[raw] for name, raw in wanted.items()}

    def counter(self, name: Name, *, shards: int | None = None) -> Counter:
        """Return a handle on a counter; ``shards`` is recorded as its number of shards, which only grows."""
        raw = name_bytes(name)
        self._runner.declare(raw, shards)
        return Counter(self, raw)

    def flush(self, timeout: float | None = None) -> None:
        """All that was buffered when called is in Redis.

        ``timeout``: seconds, default 30.
        Raises: Unavailable with ``.pending`` (kept, and sent later by itself); Refused for a counter that Redis, or
        the range of a slot, refuses: all others are in Redis.
        """
        self._runner.flush(None if timeout is None else check_age("timeout", timeout))

    def close(self, timeout: float = 5.0) -> None:
        """All that was counted is in Redis, its slots are folded, and the client is done; calling again does nothing.

        ``timeout``: seconds. Raises as `flush`; what is not in Redis then is in ``.pending``, and lost with this object.
        """
        try:
            self._runner.close(check_age("timeout", timeout))
        finally:
            stop, self._stop = self._stop, _nothing
            stop()

    def stats(self) -> Stats:
        """Return the figures of this client."""
        return self._runner.stats()

    def inspect(self, name: Name) -> Inspection:
        """Return what Redis holds of a counter: shards, slots, actors. Cost: 2 round trips or more."""
        return self._runner.ask(self._core.inspect(name))


class Counter:
    """A handle on one counter. `incr` here is the fastest way to count."""

    __slots__ = ("_counters", "_name", "_ones", "_wake")

    def __init__(self, counters: Counters, name: bytes) -> None:
        self._counters = counters
        self._name = name
        self._ones = counters._ones
        self._wake = counters._wake

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.Counter {self.name!r}>"

    @property
    def name(self) -> Name:
        """The counter's name: str where it is UTF-8, else bytes."""
        return name_shown(self._name)

    def incr(self, amount: int = 1) -> None:
        """The counter is higher by ``amount``; as `Counters.incr`."""
        if amount is _ONE:
            ones = self._ones
            if not ones and self._wake(self._name, 1):
                return
            ones.append(self._name)
        else:
            self._counters.incr(self._name, amount)

    def decr(self, amount: int = 1) -> None:
        """The counter is lower by ``amount``; as `Counters.decr`."""
        self._counters.decr(self._name, amount)

    def add(self, amount: int) -> None:
        """The counter is higher by a signed ``amount``; as `Counters.add`."""
        self._counters.add(self._name, amount)

    def value(self, *, max_age: float | None = None) -> CounterValue:
        """Return the value; as `Counters.get`."""
        return self._counters.get(self._name, max_age=max_age)


def _nothing() -> None:
    """A client of the caller is the caller's to end."""
