"""A server that throws keys away: a warning at the start, and what is lost of counters that are counted on is told.

What can be known: whoever counts finds that his own acknowledged slot is absent, and tells of it. That is a deletion,
an expiry or an eviction; Redis does not say which. Of a counter that no living process has a slot in, nobody can know.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from redis_counters import Event, EventKind, Unavailable
from tests.faces.either import FACES, Either, truth
from tests.servers import Kind, RealServer
from tests.waiting import until_async

ROOM = 4_000_000  # bytes on top of what an empty server takes
NAMES = [f"n{i}" for i in range(12)]
PATIENCE = 30.0


@pytest.fixture
def small_server(any_kind: Kind) -> Iterator[Callable[[str], RealServer]]:
    """Return a server of little memory, with the policy asked for."""
    started: list[RealServer] = []

    def start(policy: str) -> RealServer:
        server = RealServer.start(any_kind, "--maxmemory-policy", policy, "--maxmemory-samples", "64")
        started.append(server)
        client: Any = server.client()
        client.config_set("maxmemory", client.info("memory")["used_memory"] + ROOM)
        return server

    yield start
    for server in started:
        server.stop()


def keys_of(server: RealServer, name: str) -> list[bytes]:
    client: Any = server.client()
    return list(client.keys(f"*:c:*:{name}"))


def press(server: RealServer, gone: Callable[[], bool], *, expiring: bool = False) -> None:
    """Write what others write, until what is to be thrown away has been."""
    client: Any = server.client()
    end = time.monotonic() + PATIENCE
    number = 0
    while not gone():
        assert time.monotonic() < end, "nothing was evicted"
        for _ in range(50):
            number += 1
            client.set(f"other:{number}", b"x" * 10_000, ex=1000 if expiring else None)


def told_of(events: list[Event]) -> set[object]:
    return {event.counter for event in events if event.kind is EventKind.SHARD_MISSING}


@pytest.mark.every(4, "a second each")
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-random", "volatile-lru"])
def test_what_is_evicted_is_told(
    small_server: Callable[[str], RealServer], face: str, shards: int, policy: str
) -> None:
    """Each counter that lost the slot of one who goes on is named; all that was counted afterwards is there.

    Under volatile-lru those that somebody has given a time to live.
    """
    server = small_server(policy)
    events: list[Event] = []
    client: Any = server.client()

    async def main() -> None:
        async with Either.on(face, server, observer=events.append, shards=shards, flush_interval=60) as counters:
            for name in NAMES:
                counters.incr(name, 100)
            await counters.flush()
            await until_async(lambda: [event.kind for event in events] == [EventKind.EVICTION], "the eviction is told")
            assert policy in events[0].message
            if policy == "volatile-lru":
                for key in client.keys("*:c:*"):
                    client.expire(key, 1000)
            registries = {key: client.dump(key) for key in client.keys("*:a")}
            press(server, lambda: any(not keys_of(server, name) for name in NAMES), expiring=policy == "volatile-lru")
            client.config_set("maxmemory", 0)
            for key, held in registries.items():  # lost registries heal by themselves: test_deleted.py
                client.restore(key, 0, held, replace=True)
            lost = {name for name in NAMES if not keys_of(server, name)}
            for name in NAMES:
                counters.incr(name, 7)
            await counters.flush()
            await until_async(lambda: lost <= told_of(events), "all that is lost is told")
            values = await counters.get_many(NAMES, max_age=0)
            for name in NAMES:
                value = values[name]
                assert value == 107 or (name in told_of(events) and value == 7)
                assert value == 7 or name not in lost

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("which", ["own", "another's"])
def test_a_shard_of_several_is_lost(any_server: RealServer, face: str, which: str) -> None:
    """One of three shards expires: whoever has a slot in it tells of it at his next count, whoever has none cannot."""
    client: Any = any_server.client()
    events: tuple[list[Event], list[Event]] = ([], [])

    async def main() -> None:
        both = []
        for number, seen in enumerate(events, 1):
            counters = Either.on(face, any_server, observer=seen.append, shards=3, flush_interval=60)
            counters.counters._core.writer.router.choice = number  # else by chance
            counters.incr("x", 10)
            await counters.flush()
            both.append(counters)
        first, second = both
        gone = client.keys(f"*:c:{1 if which == 'own' else 2}:x")
        assert client.pexpire(*gone, 1)
        while client.exists(*gone):
            await asyncio.sleep(0.001)
        first.incr("x")
        await first.flush()
        if which == "own":
            await until_async(lambda: told_of(events[0]) == {"x"}, "one is told of x")
        assert await first.get("x", max_age=0) == 11
        second.incr("x")
        await second.flush()
        if which != "own":
            await until_async(lambda: told_of(events[1]) == {"x"}, "the other is told of x")
        assert await second.get("x", max_age=0) == 12
        assert told_of(events[which == "own"]) == set()
        for counters in both:
            async with counters:
                pass

    asyncio.run(main())
    assert truth(any_server, ["x"]) == {b"x": 12}


@pytest.mark.parametrize("face", FACES)
def test_without_a_time_to_live_a_full_server_refuses(small_server: Callable[[str], RealServer], face: str) -> None:
    """volatile-lru, and nothing that may go: as under noeviction, a flush is refused and kept, no count is lost."""
    server = small_server("volatile-lru")
    client: Any = server.client()

    async def main() -> None:
        async with Either.on(face, server, flush_interval=60) as counters:
            for name in NAMES:
                counters.incr(name, 100)
            await counters.flush()
            with pytest.raises(Exception, match="maxmemory"):
                press(server, lambda: False)
            client.config_set("maxmemory", 1)  # what the refused ones had begun to take has been given back
            for name in NAMES:
                counters.incr(name)
            with pytest.raises(Unavailable, match="OOM"):
                await counters.flush(0.3)
            client.config_set("maxmemory", 0)
            await counters.flush()

    asyncio.run(main())
    assert truth(server, NAMES) == {name.encode(): 101 for name in NAMES}
