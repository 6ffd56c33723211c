"""One process of the demo: it counts everything twice, by plain INCR and by redis-counters, until asked to stop."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

import redis

from redis_counters import Counters
from redis_counters.errors import CounterError

HOT = "hot"
OTHERS = [f"other:{number:03}" for number in range(1000)]
NAMESPACE = "demo"
PLAIN = "plain:"  # the prefix of the keys that INCR counts

_ROUNDS = 5  # between two looks at the clock and the pipe
_REPORT = 0.1  # seconds


@dataclass(frozen=True, slots=True)
class Report:
    """The increments that a worker has issued, to each side. ``others``: per name, only in the last report."""

    hot: int
    total: int
    last: bool = False
    others: list[int] = field(default_factory=list)
    error: str = ""


def work(number: int, url: str, plain: tuple[str, int], pipe: Connection) -> None:
    """Count until something arrives on ``pipe``, close, and send what was issued; reports go out all the time.

    ``url`` is for redis-counters, ``plain`` is host and port for INCR.
    """
    logging.getLogger("redis_counters").setLevel(logging.CRITICAL)  # losses are on purpose here
    hot, others, error = 0, [0] * len(OTHERS), ""
    at = number * 250 % len(OTHERS)
    try:
        counters = Counters.from_url(url, namespace=NAMESPACE, actor=f"worker {number}")
        counter = counters.counter(HOT)
        due = time.monotonic()
        # redis-py's defaults: since 6.0 a command whose connection breaks is sent again, in silence.
        with redis.Redis(*plain) as client:
            while not pipe.poll():
                for _ in range(_ROUNDS):
                    counter.incr()
                    _plain_incr(client, PLAIN + HOT)
                    hot += 1
                    counters.incr(OTHERS[at])
                    _plain_incr(client, PLAIN + OTHERS[at])
                    others[at] += 1
                    at = (at + 1) % len(OTHERS)
                if time.monotonic() >= due:
                    pipe.send(Report(hot, hot + sum(others)))
                    due = time.monotonic() + _REPORT
        counters.close(timeout=20)
    except (CounterError, redis.RedisError, OSError, EOFError) as failure:
        error = f"{type(failure).__name__}: {failure}"
    with suppress(OSError):  # the parent may be gone
        pipe.send(Report(hot, hot + sum(others), True, others, error))


def _plain_incr(client: redis.Redis, key: str) -> None:
    """INCR as code in use does it: a failed command is sent again. (Before 6.0 redis-py left that to its caller.)"""
    try:
        client.incr(key)
    except redis.ConnectionError:
        client.incr(key)
