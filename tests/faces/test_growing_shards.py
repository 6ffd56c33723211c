"""A counter's number of shards grows while processes write and read it: no reader ever falls back, the end is exact."""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import redis

from redis_counters import Counters, Event, EventKind
from tests.faces.either import FACES, Either, truth
from tests.faces.growing import grow
from tests.lifecycle.children import FORKS, ended_well, forked
from tests.servers import RealServer
from tests.waiting import PATIENCE, until

pytestmark = FORKS
WRITERS, READERS = 4, 2
ENOUGH = 15  # flushes of each writer, and reads of each reader, with each number of shards
MAX_AGE = 0.05


class Shared:
    """What forked processes tell each other."""

    def __init__(self) -> None:
        def array(length: int) -> Any:
            return multiprocessing.get_context("fork").RawArray(ctypes.c_longlong, length)

        self.begun, self.done, self.reads, self.over = array(WRITERS), array(WRITERS), array(READERS), array(1)

    def progress(self) -> list[int]:
        return [*self.done, *self.reads]


def enough_since(shared: Shared, before: Sequence[int]) -> Callable[[], bool]:
    return lambda: all(now >= then + ENOUGH for now, then in zip(shared.progress(), before, strict=True))


def counts(shared: Shared, number: int, counters: Counters) -> None:
    """One increment, in Redis when this returns."""
    shared.begun[number] += 1
    counters.incr("x")
    counters.flush(PATIENCE)
    shared.done[number] += 1


def write(shared: Shared, number: int, port: int, numbers: Sequence[int]) -> None:
    """Count until it is over; who has ``numbers`` of shards to tell goes on to the next when enough has happened."""
    with redis.Redis(port=port) as client, Counters(client, flush_interval=0.005) as counters:
        for shards in numbers:
            before, handle = shared.progress(), counters.counter("x", shards=shards)
            until(
                enough_since(shared, before), f"enough with {shards} shards", lambda: counts(shared, number, counters)
            )
            del handle
        if numbers:
            shared.over[0] = 1
        while not shared.over[0]:
            counts(shared, number, counters)
            if shared.done[number] % 5 == 0:
                counters.get("x")  # so that it learns of more shards, and moves


def read(shared: Shared, number: int, port: int) -> None:
    """Nothing is read that is less than the value before, or than what was in Redis when the snapshot was taken."""
    seen: list[tuple[float, int]] = []  # how much was in Redis, and since when that is known
    with redis.Redis(port=port) as client, Counters(client, max_age=MAX_AGE) as counters:
        last = 0
        while not shared.over[0] or shared.reads[number] < ENOUGH:
            seen.append((time.time(), sum(shared.done)))
            called = time.time()
            value = counters.get("x") if shared.reads[number] % 2 else counters.get_many(["y", "x"])["x"]
            assert last <= value <= sum(shared.begun)
            assert called - value.as_of <= MAX_AGE + 0.01, "older than max_age"
            least = max((amount for since, amount in seen if since < value.as_of), default=0)
            assert value >= least, f"{int(value)} as of a time when {least} were there"
            last = int(value)
            del seen[:-2000]
            shared.reads[number] += 1
            time.sleep(0.001)


def test_k_grows_while_everybody_writes_and_reads(server: RealServer) -> None:
    """From 1 to 4 to 16, four processes write and two read, which learn of the shards with their next snapshot."""
    shared = Shared()
    readers = [partial(read, shared, n, server.port) for n in range(READERS)]
    writers = [partial(write, shared, n, server.port, () if n else (1, 4, 16)) for n in range(WRITERS)]
    ended_well(*[forked(work, 120) for work in (*readers, *writers)])
    assert list(shared.begun) == list(shared.done)
    assert truth(server, ["x"]) == {b"x": sum(shared.done)}
    with redis.Redis(port=server.port) as client, Counters(client) as counters:
        assert counters.inspect("x").shards == 16


@pytest.mark.parametrize("face", FACES)
def test_it_grows_by_itself(any_server: RealServer, face: str) -> None:
    """A counter on "auto" that clients write to all the time gets shards; they use them, and say that they grew it."""
    events: list[Event] = []
    opened = partial(Either.on, face, any_server, shards={"hot": "auto"}, observer=events.append)
    counted = asyncio.run(grow(opened, "hot", "cold"))
    assert truth(any_server, ["hot", "cold"]) == {b"hot": counted, b"cold": counted}
    with Counters(any_server.client()) as counters:
        assert counters.inspect("cold").shards == 1
    grown = [event for event in events if event.kind is EventKind.SHARDS_GROWN]
    assert {event.counter for event in grown} == {"hot"}
    assert max(event.amount or 0 for event in grown) >= 4
