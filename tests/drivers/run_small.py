"""Count, read, close, and compare, in both faces: ``python run_small.py URL...`` under any version of redis-py.

A URL is that of a server, with redis+cluster:// that of one server of a cluster, with redis+sentinel:// that
of Sentinels. For the first two, clients of redis-py are handed in as well, with several options.

Needs nothing but redis-counters and its dependencies; ends with 0 and a line that names the versions, or raises.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from pathlib import Path
from typing import Any

import redis
import redis.asyncio

import redis_counters
import redis_counters.asyncio

sys.path.insert(0, str(Path(__file__).parent))  # it may be run by another program
check = importlib.import_module("compat_checks").check

NAMES: list[str | bytes] = ["likes:{post}:42", b"\xff\x00*", "", "ü"]


def blocking(url: str, **options: Any) -> None:
    client: Any = _kind(redis, url).from_url(url.replace("+cluster", ""), **options)
    with redis_counters.Counters(client, namespace="small") as counters:
        before = counters.get_many(NAMES, max_age=0)
        likes = counters.counter(NAMES[0])
        for _ in range(1000):
            likes.incr()
        counters.add(NAMES[1], 2**53 + 1)
        counters.decr(NAMES[2], 7)
        assert counters.get(NAMES[0]) == before[NAMES[0]] + 1000
        counters.flush()
    with redis_counters.Counters(client, namespace="small") as reader:
        assert reader.get(NAMES[0]) == before[NAMES[0]] + 1000
        after = reader.get_many(NAMES)
    assert [after[n] - before[n] for n in NAMES] == [1000, 2**53 + 1, -7, 0]
    client.close()


async def awaited(url: str, **options: Any) -> None:
    client: Any = _kind(redis.asyncio, url).from_url(url.replace("+cluster", ""), **options)
    async with redis_counters.asyncio.Counters(client, namespace="small") as counters:
        before = await counters.get_many(NAMES, max_age=0)
        likes = counters.counter(NAMES[0])
        for _ in range(1000):
            likes.incr()
        counters.add(NAMES[1], 2**53 + 1)
        counters.decr(NAMES[2], 7)
        assert await counters.get(NAMES[0]) == before[NAMES[0]] + 1000
        await counters.flush()
    async with redis_counters.asyncio.Counters(client, namespace="small") as reader:
        assert await reader.get(NAMES[0]) == before[NAMES[0]] + 1000
        after = await reader.get_many(NAMES)
    assert [after[n] - before[n] for n in NAMES] == [1000, 2**53 + 1, -7, 0]
    await (client.aclose() if hasattr(client, "aclose") else client.close())


def _kind(face: Any, url: str) -> Any:
    return face.RedisCluster if "+cluster" in url else face.Redis


def blocking_by_url(url: str) -> None:
    with redis_counters.Counters.from_url(url, namespace="small") as counters:
        before = counters.get_many(NAMES, max_age=0)
        for name in NAMES:
            counters.incr(name, 2**53 + 1)
        counters.flush()
    with redis_counters.Counters.from_url(url, namespace="small") as reader:
        after = reader.get_many(NAMES)
    assert [after[n] - before[n] for n in NAMES] == [2**53 + 1] * len(NAMES)


async def awaited_by_url(url: str) -> None:
    async with redis_counters.asyncio.Counters.from_url(url, namespace="small") as counters:
        before = await counters.get_many(NAMES, max_age=0)
        for name in NAMES:
            counters.incr(name, 2**53 + 1)
        await counters.flush()
    async with redis_counters.asyncio.Counters.from_url(url, namespace="small") as reader:
        after = await reader.get_many(NAMES)
    assert [after[n] - before[n] for n in NAMES] == [2**53 + 1] * len(NAMES)


def main(*urls: str) -> None:
    for url in urls:
        check(url)
        blocking_by_url(url)
        asyncio.run(awaited_by_url(url))
        if "+sentinel" in url:
            continue
        for options in ({}, {"decode_responses": True}, {"protocol": 3}, {"protocol": 2}, {"max_connections": 4}):
            blocking(url, **options)
            asyncio.run(awaited(url, **options))
    parser = redis.connection.DefaultParser.__name__
    print(f"exact with Python {sys.version.split()[0]}, redis-py {redis.__version__}, {parser}")


if __name__ == "__main__":
    main(*sys.argv[1:])
