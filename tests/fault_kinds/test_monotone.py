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
ENOUGH = 50  # reads of each reader
PATIENCE = 20.0  # seconds, on a machine that is busy with something else


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
    end = threading.Event()
    done: Counter[int] = Counter()  # reads, by reader
    clients = [redis.Redis(host=server.host, port=server.port) for _ in range(2)]
    both = [Counters(client, shards=shards, **BUSY) for client in clients]

    def write(number: int) -> None:
        i = 0
        while not end.is_set():
            i += 1
            books.write(both[number % 2], NAMES[(i // 50 + i * number) % len(NAMES)], 1 + i % 3)
            if i % 20 == 0:
                time.sleep(0.001)

    def read(number: int) -> None:
        counters = both[number % 2]
        last: Counter[str] = Counter()
        i = number
        while not end.is_set() and not errors:
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
            done[number] += 1

    admin: Any = server.client()

    def rotated() -> bool:
        """Two clients, two buckets, and yet so many actors."""
        actors: int = sum(field.count(b".") == 2 for key in admin.keys("*:a") for field in admin.hkeys(key))
        return actors > 20

    threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
    threads += [threading.Thread(target=read, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    patience = time.monotonic() + PATIENCE
    try:
        while not errors and not (rotated() and len(done) == 4 and min(done.values()) > ENOUGH):
            assert time.monotonic() < patience, f"not enough happens: {done}"
            time.sleep(0.05)
    finally:
        end.set()
    for thread in threads:
        thread.join(PATIENCE)
    for counters in both:
        counters.close()
    for client in clients:
        client.close()
    assert errors == []
    assert not any(thread.is_alive() for thread in threads)
    assert truth(server, NAMES) == {name.encode(): amount for name, amount in books.begun.items()}


def test_tasks(any_server: RealServer) -> None:
    """The same with tasks: two clients of one loop, writing, reading, flushing, rotating."""
    books = Books()
    done: Counter[int] = Counter()  # reads, by reader
    patience = time.monotonic() + PATIENCE

    def enough() -> bool:
        assert time.monotonic() < patience, f"not enough happens: {done}"
        return len(done) == 4 and min(done.values()) > ENOUGH

    async def write(counters: AsyncioCounters, number: int) -> None:
        i = 0
        while not enough():
            i += 1
            books.write(counters, NAMES[(i // 50 + i * number) % len(NAMES)], 1 + i % 3)
            if i % 20 == 0:
                await asyncio.sleep(0.001)

    async def read(counters: AsyncioCounters, number: int) -> None:
        last: Counter[str] = Counter()
        i = number
        while not enough():
            i += 1
            name = NAMES[i % len(NAMES)]
            floor = max(last[name], books.floor(counters, name))
            if i % 3:
                value = await counters.get(name, max_age=(None, 0, 0.01)[i // 3 % 3])
            else:
                value = (await counters.get_many([name, NAMES[0]]))[name]
            assert floor <= value <= books.ceiling(name)
            last[name] = value
            done[number] += 1

    async def main() -> None:
        clients = [redis.asyncio.Redis(host=any_server.host, port=any_server.port) for _ in range(2)]
        both = [AsyncioCounters(client, **BUSY) for client in clients]
        writers, readers = [write(both[n % 2], n) for n in range(2)], [read(both[n % 2], n) for n in range(4)]
        try:
            await asyncio.wait_for(asyncio.gather(*writers, *readers), 2 * PATIENCE)
        finally:
            for counters in both:
                await counters.close()
            for client in clients:
                await client.aclose()

    asyncio.run(main())
    assert truth(any_server, NAMES) == {name.encode(): amount for name, amount in books.begun.items()}
