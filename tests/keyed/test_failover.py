"""A real fail-over under a client that makes keyed calls only: what was taken back counts when it is repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from redis_counters import Unavailable
from redis_counters.testing import LossyLink
from tests.drivers.test_failover import client_at
from tests.faces.either import FACES, Either, closed, truth
from tests.keyed.support import done, users
from tests.servers import Kind
from tests.topologies import Pair


@pytest.fixture
def pair(kind: Kind) -> Iterator[Pair]:
    pair = Pair(kind)
    yield pair
    pair.stop()


@pytest.mark.parametrize("face", FACES)
def test_connections_to_a_demoted_primary_are_given_up(pair: Pair, face: str) -> None:
    """The address leads to the new primary, the connections that exist to the old one, which answers READONLY."""
    with LossyLink(pair.primary.url) as link:

        async def main() -> None:
            client = client_at(face, link.url)
            async with Either(face, client, shards=2, flush_interval=60) as either:
                counters, likes = either.counters, either.counters.likes("l")

                async def all_of_it() -> list[bool]:
                    counted = []
                    for i in range(20):
                        while True:
                            try:
                                counted.append(await done(counters.incr_once("c", f"{i}", 5)))
                                await done(likes.like(i))
                                break
                            except Unavailable:
                                await asyncio.sleep(0.05)
                    return counted

                for i in range(10):
                    await done(counters.incr_once("c", f"{i}", 5))
                    await done(likes.like(i))
                await asyncio.gather(*(either.background("incr_once", "d", f"{i}") for i in range(8)))
                pair.caught_up()
                pair.pause_replication()
                assert await all_of_it() == [False] * 10 + [True] * 10  # the new primary lacks the last ten
                pair.promote()
                pair.follow()
                link.lead_to(pair.primary.url, keep=True)
                assert await all_of_it() == [False] * 10 + [True] * 10
                assert await all_of_it() == [False] * 20
                assert await either.get_many(["c", "l", "d"], max_age=0) == {"c": 100, "l": 20, "d": 8}
            await closed(client)

        asyncio.run(main())
    assert truth(pair.primary, ["c", "l"]) == {b"c": 100, b"l": 20}
    assert len(users(pair.primary, b"l", 2)) == 20
