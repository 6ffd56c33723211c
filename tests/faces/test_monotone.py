"""While everything goes on at once, values of counters that only grow never fall and never pass what was issued."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from typing import Any

import pytest
import redis

from redis_counters import Counters
from redis_counters.asyncio import Counters as AsyncioCounters
from tests.faces.either import truth
from tests.servers import RealServer

NAMES = [f"n{i}" for i in range(24)]
BUSY: dict[str, Any] = {
    "flush_interval": 0.005,
    "max_batch": 3,
    "max_age": 0.003,
    "rotate_slots": 2,
    "reassert_window": 0.006,
    "rotate_age": 0.02,
    "buckets": 2,
}
SECONDS = 0.6


class Books:
    """What was issued, by name: `begun` before the call, `done` after it; so done <= any value <= begun."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.begun: Counter[str] = Counter()
        self.own: dict[int, Counter[str]] = {}

    def write(self, counters: Any, name: str, amount: int) -> None:
        with self.lock:
            self.begun[name] += amount
        counters.incr(name, amount)
        with self.lock:
            self.own.setdefault(id(counters), Counter())[name] += amount

    def floor(self, counters: Any, name: str) -> int:
        with self.lock:
            return self.own.get(id(counters), Counter())[name]

    def ceiling(self, name: str) -> int:
        with self.lock:
            return self.begun[name]


@pytest.mark.parametrize("shards", [1, 3])
def test_threads(server: RealServer, shards: int) -> None:
    """Two clients, three writing and four reading threads, rotation, folding and a cache of milliseconds."""
    books = Books()
    errors: list[str] = []
    end = time.monotonic() + SECONDS
    clients = [redis.Redis(host=server.host, port=server.port) for _ in range(2)]
    both = [Counters(client, shards=shards, **BUSY) for client in clients]

    def write(number: int) -> None:
        i = 0
        while time.monotonic() < end:
            i += 1
            books.write(both[number % 2], NAMES[(i // 50 + i * number) % len(NAMES)], 1 + i % 3)
            if i % 20 == 0:
                time.sleep(0.001)

    def read(number: int) -> None:
        counters = both[number % 2]
        last: Counter[str] = Counter()
        i = number
        while time.monotonic() < end and not errors:
            i += 1
            ages = (None, 0, 0.01, None)
            names = NAMES[i % 6 : i % 6 + 4] if i % 3 == 0 else [NAMES[i % len(NAMES)]]
            floors = {name: max(last[name], books.floor(counters, name)) for name in names}
            if len(names) > 1:
                values: Any = counters.get_many(names, max_age=ages[i % 4])
            else:
                values = {names[0]: counters.get(names[0], max_age=ages[i % 4])}
            for name, value in values.items():
                if not floors[name] <= value <= books.ceiling(name):
                    errors.append(f"{name}: {floors[name]} <= {int(value)} <= {books.ceiling(name)}, read {i}")
                last[name] = value

    threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
    threads += [threading.Thread(target=read, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    admin: Any = server.client()
    actors = sum(field.count(b".") == 2 for key in admin.keys("*:a") for field in admin.hkeys(key))
    for counters in both:
        counters.close()
    for client in clients:
        client.close()
    assert errors == []
    assert not any(thread.is_alive() for thread in threads)
    assert truth(server, NAMES) == {name.encode(): amount for name, amount in books.begun.items()}
    assert actors > 8  # two clients, two buckets, and yet: there was rotation


def test_tasks(any_server: RealServer) -> None:
    """The same with tasks: two clients of one loop, writing, reading, flushing, rotating."""
    books = Books()
    end = time.monotonic() + SECONDS

    async def write(counters: AsyncioCounters, number: int) -> int:
        i = 0
        while time.monotonic() < end:
            i += 1
            books.write(counters, NAMES[(i // 50 + i * number) % len(NAMES)], 1 + i % 3)
            if i % 20 == 0:
                await asyncio.sleep(0.001)
        return i

    async def read(counters: AsyncioCounters, number: int) -> int:
        last: Counter[str] = Counter()
        i = number
        while time.monotonic() < end:
            i += 1
            name = NAMES[i % len(NAMES)]
            floor = max(last[name], books.floor(counters, name))
            if i % 3:
                value = await counters.get(name, max_age=(None, 0, 0.01)[i // 3 % 3])
            else:
                value = (await counters.get_many([name, NAMES[0]]))[name]
            assert floor <= value <= books.ceiling(name)
            last[name] = value
        return i

    async def main() -> None:
        clients = [redis.asyncio.Redis(host=any_server.host, port=any_server.port) for _ in range(2)]
        both = [AsyncioCounters(client, **BUSY) for client in clients]
        writers, readers = [write(both[n % 2], n) for n in range(2)], [read(both[n % 2], n) for n in range(4)]
        try:
            done = await asyncio.wait_for(asyncio.gather(*writers, *readers), 20)
        finally:
            for counters in both:
                await counters.close()
            for client in clients:
                await client.aclose()
        assert min(done[2:]) > 5

    asyncio.run(main())
    assert truth(any_server, NAMES) == {name.encode(): amount for name, amount in books.begun.items()}
