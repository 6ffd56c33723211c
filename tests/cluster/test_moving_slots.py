"""A hash slot goes from one primary to another, and back, while writers count in it; exact."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from redis_counters import Counters, Unavailable
from redis_counters.protocol.keyed.key_shards import refused
from redis_counters.protocol.wire import scripts
from redis_counters.protocol.wire.commands import ErrorReply, Script
from tests.cluster.support import KEYS, NAMES, held_up, writing
from tests.faces.either import FACES, Either
from tests.topologies.clusters import Cluster, Moving, slot_of
from tests.waiting import PATIENCE

TIMES = 4


def hot_slot(cluster: Cluster) -> int:
    """Return the hash slot of a shard of "hot" that somebody writes to."""
    with Counters.from_url(cluster.url) as reader:
        parts = reader.inspect("hot").parts
    shard = next(part.shard for part in parts if part.map.actors)
    return slot_of(KEYS.shard_key(b"hot", shard)[1])


def test_a_slot_with_a_hot_shard_back_and_forth_while_four_writers_run(private_cluster: Cluster) -> None:
    with writing(private_cluster) as writers:
        writers.go_on(3)
        slot = hot_slot(private_cluster)
        for _ in range(TIMES):
            source = private_cluster.node_of(slot)
            target = next(node for node in private_cluster.primaries() if node is not source)
            moving = Moving(private_cluster, slot, target)
            writers.go_on(1)  # of other slots; those of this one may have to wait
            while keys := moving.keys(3):
                moving.move(*keys)
            moving.finish()
            writers.go_on(3)


@pytest.mark.parametrize("face", FACES)
def test_asked_of_the_wrong_server(private_cluster: Cluster, face: str) -> None:
    """MOVED, and ASK for what has been moved already, are followed at once, by reads, flushes and keyed calls."""

    async def main() -> None:
        async with Either.url(face, private_cluster.url, flush_interval=0.01) as counters:
            api = counters.counters
            for name in NAMES:
                counters.incr(name)
            await counters.flush()
            slot = slot_of(KEYS.shard_key(b"n0", 0)[1])
            target = next(node for node in private_cluster.primaries() if node is not private_cluster.node_of(slot))
            private_cluster.move_slot(slot, target)
            for name in NAMES:
                counters.incr(name)
            await counters.flush()
            assert await counters.get_many(NAMES, max_age=0) == dict.fromkeys(NAMES, 2)

            source = next(node for node in private_cluster.primaries() if node is not private_cluster.node_of(slot))
            moving = Moving(private_cluster, slot, source)
            moving.move(*moving.keys())  # all are there, and the slot is not yet
            for name in NAMES:
                counters.incr(name)
            await counters.flush()
            assert await counters.get_many(NAMES, max_age=0) == dict.fromkeys(NAMES, 3)
            assert await counters.get("n0", max_age=0) == 3
            moving.finish()
            answers: list[Any] = []
            for name in NAMES[:20]:
                call = api.incr_once(name, "k")
                answers.append(await call if face == "asyncio" else call)
            assert answers == [True] * 20
            assert await counters.get_many(NAMES[:20], max_age=0) == dict.fromkeys(NAMES[:20], 4)
            assert private_cluster.node_of(slot) is source

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_a_page_while_its_slot_is_half_way(private_cluster: Cluster, face: str) -> None:
    """TRYAGAIN: some keys of a script are here, some there. Counting waits, and nothing is lost; then it goes on."""

    async def main() -> None:
        async with Either.url(face, private_cluster.url, flush_interval=0.01) as counters:
            for name in NAMES:
                counters.incr(name)
            await counters.flush()
            slot = slot_of(KEYS.registries[KEYS.bucket(b"n0", 0)])
            target = next(node for node in private_cluster.primaries() if node is not private_cluster.node_of(slot))
            moving = Moving(private_cluster, slot, target)
            moving.move(KEYS.registries[KEYS.bucket(b"n0", 0)])
            inside = [name for name in NAMES if KEYS.bucket(name.encode(), 0) == KEYS.bucket(b"n0", 0)]
            outside = [name for name in NAMES if name not in inside]
            for name in NAMES:
                counters.incr(name)
            assert "TRYAGAIN" in str(await held_up(counters, inside)), "the other slots do not wait"
            assert await counters.get_many(outside, max_age=0) == dict.fromkeys(outside, 2)
            moving.finish()
            await counters.flush()
            assert await counters.get_many(NAMES, max_age=0) == dict.fromkeys(NAMES, 2)

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_slots_that_stay_half_way(private_cluster: Cluster, face: str) -> None:
    """ASK is answered to all that is sent for them: a round looks once at all actors, and ends."""

    async def main() -> None:
        async with Either.url(face, private_cluster.url, flush_interval=0.01) as counters:
            for name in NAMES:
                counters.incr(name)
            await counters.flush()
            primaries = private_cluster.primaries()
            for slot in {slot_of(KEYS.shard_key(name, 0)[1]) for name in (b"n0", b"n1", b"n2")}:
                target = next(node for node in primaries if node is not private_cluster.node_of(slot))
                moving = Moving(private_cluster, slot, target)
                moving.move(*moving.keys())
            for node in primaries:
                node.ask("CONFIG", "RESETSTAT")
            await asyncio.sleep(2.5)  # two looks; a round that goes on would ask thousands of times
            told = [node.ask("INFO", "commandstats").get("cmdstat_hmget", {}) for node in primaries]
            assert sum(of_node.get("calls", 0) for of_node in told) < 4 * KEYS.buckets

    asyncio.run(main())


@pytest.mark.parametrize("face", FACES)
def test_keyed_calls_while_their_slot_moves(private_cluster: Cluster, face: str) -> None:
    """Each call is repeated until Redis has answered: it has changed something once, and was told so once."""
    users = [f"user {n}" for n in range(40)]
    over = False

    async def work(api: Any, mine: list[str]) -> tuple[int, int]:
        """Return how many keys were counted, and how many calls were told that they changed something."""
        likes = api.likes("post")
        rounds = told = 0
        while not over or not rounds:
            for user in mine:
                once = partial(api.incr_once, "hot", f"{user} {rounds}", 10)
                for call in (once, partial(likes.like, user), partial(likes.unlike, user)):
                    changed = await persistently(face, call)
                    told += changed
            rounds += 1
        return rounds * len(mine), told

    async def main() -> None:
        nonlocal over
        async with Either.url(face, private_cluster.url) as counters:
            api: Any = counters.counters
            working = [asyncio.ensure_future(work(api, users[n::4])) for n in range(4)]
            for key in (KEYS.shard_key(b"hot", 0)[1], KEYS.shard_key(b"post", 0)[1]):
                for _ in range(4):
                    await asyncio.to_thread(there_and_back, private_cluster, slot_of(key))
            over = True
            counted, told = map(sum, zip(*await asyncio.gather(*working), strict=True))
            assert await counters.get_many(["hot", "post"], max_age=0) == {"hot": 10 * counted, "post": 0}
            assert told == 3 * counted

    asyncio.run(main())


def test_what_is_emptied_on_its_way_may_be_called_again(private_cluster: Cluster) -> None:
    """A script takes the last user from a set, and adds another: the server wants the key elsewhere by then."""
    with Counters.from_url(private_cluster.url) as counters:
        counters.likes("post").like("ann")
    shard, users, bucket = KEYS.shard_key(b"post", 0)[1], KEYS.users_key(b"post", 0), KEYS.bucket(b"post", 0)
    source = private_cluster.node_of(shard)
    Moving(private_cluster, slot_of(shard), next(node for node in private_cluster.primaries() if node is not source))
    keys = (KEYS.registries[bucket], KEYS.index(bucket), shard, users, shard, users)
    text = scripts.text(Script.LIKES_APPLY)
    word, changed, told = source.ask("EVAL", text, len(keys), *keys, "", "-", "ann", "+", "bob")
    assert (word, changed) == (b"OK", b"1")
    error = refused(b"post", ErrorReply(told[1:].decode()), Script.LIKES_APPLY)
    assert isinstance(error, Unavailable), error


async def persistently(face: str, call: Callable[[], Any]) -> bool:
    """Return what the call returns when Redis has answered."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with suppress(Unavailable):
            result: bool = await call() if face == "asyncio" else await asyncio.to_thread(call)
            return result
        await asyncio.sleep(0.01)
    raise AssertionError("Redis has not answered")


def there_and_back(cluster: Cluster, slot: int) -> None:
    """The hash slot goes to the next primary, few keys at a time."""
    source = cluster.node_of(slot)
    moving = Moving(cluster, slot, next(node for node in cluster.primaries() if node is not source))
    while keys := moving.keys(1):
        moving.move(*keys)
        time.sleep(0.1)
    moving.finish()
