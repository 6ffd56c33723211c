"""What many distinct names cost: the client before, during and after, and Redis per counter."""

from __future__ import annotations

import json
import subprocess
import sys

import redis

from benchmarks.distinct import pipelined_incr
from benchmarks.harness import Row, Size, environment
from benchmarks.server import Server

# In a process of its own, whose memory is nothing but this. Names are made one by one and kept by nobody here. The
# windows are short so that the process need not wait a minute: after them, idle slots leave both sides.
CHILD = """
import ctypes, gc, json, os, subprocess, sys, time
import redis
from redis_counters import Counters
url, names = sys.argv[1], int(sys.argv[2])
server = redis.Redis.from_url(url)
def rss():
    gc.collect()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)  # what the allocator keeps for later is not ours to count
    except OSError:
        pass
    try:
        with open("/proc/self/statm") as pages:
            return int(pages.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    except FileNotFoundError:
        return 1024 * int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(os.getpid())]))
def used():
    return server.info("memory")["used_memory"]
with Counters.from_url(url, reassert_window=0.5, rotate_age=0.5, rotate_slots=1000, max_pending=names + 10) as counters:
    counters.incr("warm")
    counters.flush()
    start, empty = rss(), used()
    blocks = sys.getallocatedblocks()
    for number in range(names):
        counters.incr(f"name:{number}")
    counters.flush()
    flushed, full = rss(), used()
    deadline = time.monotonic() + 150
    while counters.stats().slots > 1 and time.monotonic() < deadline:  # one counter goes on, the others are left behind
        counters.incr("warm")
        time.sleep(0.1)
    left = counters.stats().slots
    rotated, later = rss(), used()
    blocks = sys.getallocatedblocks() / blocks
    found = counters.get_many([f"name:{number}" for number in range(0, names, 1 + names // 1000)], max_age=0)
closed = used()
print(json.dumps({"start": start, "flushed": flushed, "rotated": rotated, "redis": full - empty,
    "redis_rotated": later - empty, "redis_closed": closed - empty, "left": left, "blocks": blocks,
    "right": all(v == 1 for v in found.values())}))
"""


def rows(server: Server, size: Size) -> list[Row]:
    server.clear()
    names = size.memory
    done = subprocess.run(
        [sys.executable, "-c", CHILD, server.url, str(names)],
        check=True,
        stdout=subprocess.PIPE,
        timeout=300,
        env=environment(),
    )
    seen = json.loads(done.stdout)
    if not seen["right"]:
        raise AssertionError("not every name holds 1")
    if seen["left"] > 1:
        raise AssertionError(f"{seen['left']:,} idle slots have not left the client")
    server.clear()
    empty = server.memory()
    with redis.Redis.from_url(server.url) as client:
        pipelined_incr(client, [f"name:{number}" for number in range(names)])
    plain = (server.memory() - empty) / names
    what, mega = f"{names:,} distinct names", 1e6
    return [
        Row(f"{what}: client memory before", seen["start"] / mega, unit="MB"),
        Row(f"{what}: client memory after the flush", seen["flushed"] / mega, unit="MB"),
        Row(f"{what}: client memory after rotation / before", seen["rotated"] / seen["start"], at_most=1.5),
        Row(f"{what}: live blocks of Python's allocator after rotation / before", seen["blocks"], at_most=1.1),
        Row(f"{what}: Redis bytes per counter, flushed", seen["redis"] / names, unit="B"),
        Row(f"{what}: Redis bytes per counter, rotated", seen["redis_rotated"] / names, unit="B"),
        Row(f"{what}: Redis bytes per counter, closed and folded", seen["redis_closed"] / names, unit="B"),
        Row(f"{what}: Redis bytes per counter, INCR", plain, unit="B"),
    ]
