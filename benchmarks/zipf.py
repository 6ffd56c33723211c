"""Four processes count names drawn by Zipf's law; what an increment costs the server."""

from __future__ import annotations

import multiprocessing
import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from itertools import accumulate, cycle, islice
from multiprocessing.connection import Connection
from typing import Literal

import redis

from benchmarks.distinct import PIPELINE, pipelined_incr
from benchmarks.harness import Row, Size, expect, ratio, take_turns
from benchmarks.server import Server
from redis_counters import Counters

PROCESSES = 4
EXPONENT = 1.1
DRAWS = 100_000  # per process, then from the beginning

Side = Literal["ours", "incr", "pipelined"]


def rows(server: Server, size: Size) -> list[Row]:
    times = 1 if size.zipf_seconds < 1 else 2
    sides: tuple[Side, ...] = ("ours", "incr", "pipelined")
    rates: dict[Side, list[float]] = {side: [] for side in sides}

    def cost(side: Side) -> float:
        server.clear()
        cost, rate = _run(server, side, size.zipf_seconds / times, size.zipf_names)
        rates[side].append(rate)
        return cost

    costs = dict(zip(sides, take_turns(times, *(partial(cost, side) for side in sides)), strict=True))
    told = {
        side: f"{statistics.median(costs[side]) * 1e6:.3g} µs at {statistics.median(rates[side]):,.0f} increments/s"
        for side in sides
    }
    labels: dict[Side, str] = {"incr": "INCR", "pipelined": f"pipelines of {PIPELINE:,} INCRs"}
    what = f"{size.zipf_names:,} names by Zipf {EXPONENT}, {PROCESSES} processes: server CPU per increment"
    return [
        Row(f"{what}, {label} / ours", ratio(costs[side], costs["ours"]), note=f"{told[side]}, {told['ours']}")
        for side, label in labels.items()
    ]


def _run(server: Server, side: Side, seconds: float, names: int) -> tuple[float, float]:
    """Seconds of server CPU per increment, and increments per second."""
    context = multiprocessing.get_context("spawn")
    pairs = [context.Pipe() for _ in range(PROCESSES)]
    processes = [
        context.Process(target=_work, args=(server.url, side, seconds, names, seed, theirs), daemon=True)
        for seed, (_, theirs) in enumerate(pairs)
    ]
    try:
        for process in processes:
            process.start()
        pipes = [ours for ours, _ in pairs]
        for pipe in pipes:
            _receive(pipe)  # ready
        used, begin = server.cpu(), time.perf_counter()
        for pipe in pipes:
            pipe.send("go")
        issued = sum(_receive(pipe) for pipe in pipes)
        took, used = time.perf_counter() - begin, server.cpu() - used
        for pipe in pipes:
            pipe.send("end")
        expect(_receive(pipes[0]), issued)
        return used / issued, issued / took
    finally:
        for process in processes:
            process.kill()
            process.join()


def _receive(pipe: Connection) -> int:
    if not pipe.poll(120):
        raise TimeoutError("a process of the benchmark does not answer")
    return int(pipe.recv())


def _work(url: str, side: Side, seconds: float, names: int, seed: int, pipe: Connection) -> None:
    weights = list(accumulate(1 / rank**EXPONENT for rank in range(1, names + 1)))
    every = [f"name:{rank}" for rank in range(names)]
    draws = random.Random(seed).choices(every, cum_weights=weights, k=min(DRAWS, 20 * names))
    with Counters.from_url(url) as counters, redis.Redis.from_url(url) as client:

        def one_by_one(chunk: list[str]) -> None:
            for name in chunk:
                client.incr(name)

        def ours(chunk: list[str]) -> None:
            for name in chunk:
                counters.incr(name)

        count: dict[Side, Callable[[list[str]], None]] = {
            "ours": ours,
            "incr": one_by_one,
            "pipelined": lambda chunk: pipelined_incr(client, chunk),
        }
        client.ping()
        if side == "ours":
            counters.get("warm", max_age=0)
        endless, step = cycle(draws), 50 if side == "incr" else PIPELINE
        pipe.send(0)
        pipe.recv()
        issued, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            count[side](list(islice(endless, step)))
            issued += step
        counters.flush()
        pipe.send(issued)
        pipe.recv()
        if side == "ours":
            pipe.send(sum(counters.get_many(every, max_age=0).values()))
        else:
            pipe.send(sum(int(value or 0) for value in client.mget(every)))
        pipe.recv()  # until the parent ends this process
