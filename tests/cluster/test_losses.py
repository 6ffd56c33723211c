"""A follower takes over that lacks acknowledged counts, and no call fails for it: they are told again."""

from __future__ import annotations

import asyncio

import pytest

from tests.cluster.losing import leave_behind, take_over
from tests.cluster.support import KEYS, at
from tests.faces.either import FACES, Either, in_turn
from tests.losses.witness import DOINGS, Names, count, others_see, without_looks
from tests.topologies.clusters import Cluster


@pytest.mark.parametrize(("face", "doing"), in_turn(DOINGS))
def test_a_follower_takes_over_that_was_left_behind(private_cluster: Cluster, face: str, doing: str) -> None:
    """1 had been copied to it, of 701; what the process does then concerns other buckets of the same primary."""
    leave_behind_and_take_over(private_cluster, face, doing)


@pytest.mark.parametrize("face", FACES)
def test_a_redirection_is_a_reason_to_look(
    private_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, face: str
) -> None:
    """What has moved may have been lost; without regular looks nothing else would tell of it."""
    without_looks(monkeypatch)
    leave_behind_and_take_over(private_cluster, face, "it counts another")


def leave_behind_and_take_over(cluster: Cluster, face: str, doing: str) -> None:
    primary = cluster.primaries()[0]
    (follower,) = cluster.followers_of(primary)
    names = Names.of(KEYS, at(cluster, primary, [f"n{n}" for n in range(1000)]))

    async def main() -> None:
        async with Either.url(face, cluster.url, flush_interval=0.02) as counters:
            counters.incr(names.other)
            await count(counters, names, 1)
            await asyncio.to_thread(cluster.caught_up, primary)
            leave_behind(primary, follower)
            await count(counters, names, 700)
            await asyncio.to_thread(take_over, cluster, primary, follower)
            await others_see(701, counters, doing, cluster.url, names)

    asyncio.run(main())
