"""``bench``: how fast the user's own server counts, by INCR and by redis-counters, side by side in a few seconds."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Annotated

import redis
import typer
from redis.exceptions import RedisClusterException

from redis_counters import Counters
from redis_counters.cli import options, output
from redis_counters.drivers.urls import open_url
from redis_counters.protocol.wire.keys import DEFAULT_BUCKETS, KeySpace, meta_key, namespace_bytes

_PIPELINE = 1000
COLUMNS = ["one process", "increments", "seconds", "per second", "times INCR"]
_MAX_NAMES = 50_000  # names, so that the scratch keys stay few
_CHUNK = 1000  # keys removed by one command


@dataclass(frozen=True, slots=True)
class Result:
    """The time of increments, until all of them were in Redis; ``found``: what Redis holds."""

    what: str
    increments: int
    seconds: float
    found: int

    @property
    def rate(self) -> float:
        """Increments per second."""
        return self.increments / self.seconds


def bench(
    url: options.Url = options.DEFAULT_URL,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    region: options.Region = options.DEFAULT_REGION,
    seconds: Annotated[float, options.seconds("--seconds", "For each way of counting.", 0.05, 60)] = 1.0,
    as_json: options.Json = False,
) -> None:
    """Compare INCR with redis-counters on your server: increments per second until they are in Redis, one process.

    Counts in scratch keys beside the namespace and removes them. Exit code 1 if a result is not what was issued.
    """
    results = run(url, f"{namespace}-bench-{secrets.token_hex(4)}", region, seconds)
    slowest = results[0].rate
    if as_json:
        rows = [asdict(r) | {"rate": r.rate, "times_incr": r.rate / slowest} for r in results]
        output.print_json({"results": rows})
    else:
        cells = [
            (r.what, f"{r.increments:,}", f"{r.seconds:.2f}", f"{r.rate:,.0f}", f"{r.rate / slowest:,.1f}")
            for r in results
        ]
        output.print_table(COLUMNS, cells, numbers=COLUMNS[1:], aligned=True)
    for r in results:
        if r.found != r.increments:
            output.complain(f"{r.what}: issued {r.increments:,}, found {r.found:,}")
    if any(r.found != r.increments for r in results):
        raise typer.Exit(1)


def run(url: str, namespace: str, region: str, seconds: float) -> list[Result]:
    """Measure four ways of counting, each for about ``seconds``, in keys of this namespace, which are removed."""
    scratch, distinct = namespace_bytes(namespace), [f"name:{number}" for number in range(_MAX_NAMES)]
    opened = open_url(url, asyncio=False)
    with ExitStack() as stack:
        stack.callback(opened.stop_all)
        client: redis.Redis = opened.connected()
        stack.enter_context(_scratch(client, scratch, distinct))
        with Counters(client, namespace=namespace, region=region) as counters:
            counters.incr("warm")
            counters.flush(timeout=10)
            return [
                _loop(client, f"{namespace}:loop", seconds),
                _pipelines(client, f"{namespace}:pipeline", seconds),
                _hot(counters, seconds),
                _distinct(counters, distinct, seconds),
            ]


@contextmanager
def _scratch(client: redis.Redis, namespace: bytes, distinct: list[str]) -> Iterator[None]:
    """All keys of ours are removed at the end. An error inside comes before one of removing."""
    try:
        yield
    except BaseException:
        with suppress(redis.RedisError, RedisClusterException, OSError):
            _remove(client, _keys(namespace, distinct))
        raise
    _remove(client, _keys(namespace, distinct))


def _timed(what: str, seconds: float, step: Callable[[], int], finish: Callable[[], int]) -> Result:
    """Repeat a step for so many seconds. It returns its number of increments; ``finish`` returns the count in Redis."""
    begin, increments = time.perf_counter(), 0
    while (made := step()) and time.perf_counter() - begin < seconds:
        increments += made
    found = finish()
    return Result(what, increments + made, time.perf_counter() - begin, found)


def _loop(client: redis.Redis, key: str, seconds: float) -> Result:
    def step() -> int:
        for _ in range(50):
            client.incr(key)
        return 50

    return _timed("INCR, a loop of incr()", seconds, step, lambda: int(client.get(key) or 0))


def _pipelines(client: redis.Redis, key: str, seconds: float) -> Result:
    def step() -> int:
        with client.pipeline(transaction=False) as pipe:
            for _ in range(_PIPELINE):
                pipe.incr(key)
            return len(pipe.execute())

    return _timed(f"INCR, pipelines of {_PIPELINE:,}", seconds, step, lambda: int(client.get(key) or 0))


def _hot(counters: Counters, seconds: float) -> Result:
    hot = counters.counter("hot")

    def step() -> int:
        for _ in range(1000):
            hot.incr()
        return 1000

    def finish() -> int:
        counters.flush(timeout=30)
        return int(counters.get("hot", max_age=0))

    return _timed("redis-counters, one hot name", seconds, step, finish)


def _distinct(counters: Counters, names: list[str], seconds: float) -> Result:
    """Count each name once, and cut the list to the names that were counted: only these have to be removed."""
    rest, used = iter(names), 0

    def step() -> int:
        nonlocal used
        made = 0
        for made, name in enumerate(islice(rest, 500), 1):  # noqa: B007 - its last value is how many there were
            counters.incr(name)
        used += made
        return made

    def finish() -> int:
        counters.flush(timeout=30)
        return used

    result = _timed("redis-counters, each name once", seconds, step, finish)
    del names[used:]
    found = sum(counters.get_many(names, max_age=0).values())
    return Result(result.what, result.increments, result.seconds, found)


def _keys(namespace: bytes, distinct: list[str]) -> Iterator[bytes]:
    space = KeySpace(namespace, DEFAULT_BUCKETS)
    yield from (namespace + b":loop", namespace + b":pipeline", meta_key(namespace))
    for bucket, registry in enumerate(space.registries):
        yield from (registry, space.index(bucket))
    for name in (b"warm", b"hot", *(name.encode() for name in distinct)):
        yield space.shard_key(name, 0)[1]


def _remove(client: redis.Redis, keys: Iterator[bytes]) -> None:
    while chunk := list(islice(keys, _CHUNK)):
        client.unlink(*chunk)
