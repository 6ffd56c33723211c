"""A follower takes over that lacks acknowledged counts, and no call fails for it: they are told again."""

from __future__ import annotations

import asyncio

import pytest

from tests.cluster.losing import leave_behind, take_over
from tests.cluster.support import KEYS, at
from tests.faces.either import FACES, Either
from tests.losses.witness import Names, count, others_see
from tests.topologies.clusters import Cluster


@pytest.mark.parametrize(
    "doing", ["it counts another", "it reads another", "it reads them", "it reads them at once", "it does nothing"]
)
@pytest.mark.parametrize("face", FACES)
def test_a_follower_takes_over_that_was_left_behind(private_cluster: Cluster, face: str, doing: str) -> None:
    """1 had been copied to it, of 701; what the process does then concerns other buckets of the same primary."""
    primary = private_cluster.primaries()[0]
    (follower,) = private_cluster.followers_of(primary)
    names = Names.of(KEYS, at(private_cluster, primary, [f"n{n}" for n in range(1000)]))

    async def main() -> None:
        async with Either.url(face, private_cluster.url, flush_interval=0.02) as counters:
            counters.incr(names.other)
            await count(counters, names, 1)
            await asyncio.to_thread(private_cluster.caught_up, primary)
            leave_behind(primary, follower)
            await count(counters, names, 700)
            await asyncio.to_thread(take_over, private_cluster, primary, follower)
            await others_see(701, counters, doing, private_cluster.url, names)

    asyncio.run(main())
