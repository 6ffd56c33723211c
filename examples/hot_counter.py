"""One name counted by several processes at once, in eight shards, and read by one that was told nothing of them.

    python examples/hot_counter.py [PROCESSES [INCREMENTS]]

The server is the one of REDIS_COUNTERS_URL, else redis://localhost:6379/0.
"""

from __future__ import annotations

import multiprocessing
import os
import secrets
import sys
import time

from redis_counters import Counters

URL = os.environ.get("REDIS_COUNTERS_URL", "redis://localhost:6379/0")


def work(name: str, increments: int) -> None:
    """Count one name; closing brings it all to Redis."""
    with Counters.from_url(URL) as counters:
        hot = counters.counter(name, shards=8)
        for _ in range(increments):
            hot.incr()


def main(processes: int = 4, increments: int = 100_000) -> int:
    """Return 0 if the value is what was issued."""
    name = f"example:hot:{secrets.token_hex(4)}"  # new, so that this run starts at 0
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=work, args=(name, increments)) for _ in range(processes)]
    begin = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    seconds = time.perf_counter() - begin
    with Counters.from_url(URL) as counters:
        found = counters.inspect(name)
        value = counters.get(name)
    used = sum(part.map.value > 0 for part in found.parts)
    print(f"issued {processes * increments}, counted {value}, in {used} of {found.shards} shards")
    print(f"{processes} processes, {seconds:.1f} s with starting them")
    return int(value != processes * increments)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
