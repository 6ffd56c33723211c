"""Bounded counters in a Redis Cluster: each lies on one primary, and is decided there."""

from __future__ import annotations

import asyncio

import pytest

from tests.faces.either import FACES, Either
from tests.keyed.support import done
from tests.topologies import Cluster


@pytest.mark.parametrize("face", FACES)
def test_counters_on_all_primaries(any_cluster: Cluster, face: str) -> None:
    """Bounds hold, keys hold, and what is left is read, wherever a counter lies."""

    async def main() -> None:
        async with Either.url(face, any_cluster.url) as either:
            stocks = [either.counters.bounded(f"sku:{i}", floor=0) for i in range(40)]
            for stock in stocks:
                await done(stock.add(5, key="delivery"))
            for _ in range(2):
                for stock in stocks:
                    assert [await done(stock.try_spend(n, key=f"{n}")) for n in (3, 4, 2)] == [True, False, True]
            for stock in stocks:
                assert await done(stock.give_back("3")) is True
                assert await done(stock.value()) == 3

    asyncio.run(main())
