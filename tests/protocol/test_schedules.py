"""Every schedule ends exact, or with an uncertainty that the client itself reported; no value is ever too large."""

from __future__ import annotations

import os

import pytest

from tests.protocol.adversary import Schedule
from tests.servers import RealServer

SEEDS = int(os.environ.get("REDIS_COUNTERS_SEEDS", "20"))
BLOCKS = 10


@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_schedules_end_exact(any_server: RealServer, block: int) -> None:
    """What was issued is what is there, whatever was lost, repeated, reordered, folded or failed over."""
    wrong = []
    for seed in range(block * SEEDS, (block + 1) * SEEDS):
        outcome = Schedule(any_server.client(), seed).run()
        if outcome.deleted or outcome.uncertain:
            continue
        if outcome.issued != outcome.values:
            wrong.append((seed, outcome))
    assert wrong == []
