"""Whatever the schedule, and whenever processes are killed: what their journals held counts, once."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.journal.schedules import JournalSchedule
from tests.servers import RealServer

SEEDS = int(os.environ.get("REDIS_COUNTERS_SEEDS", "20"))


@pytest.mark.slow("twenty schedules each, a second each")
@pytest.mark.parametrize("block", range(4))
def test_random_schedules_with_kills_end_exact(
    any_server: RealServer, block: int, record_property: Callable[[str, object], None]
) -> None:
    """What was recorded when a process was killed is there at the end, and no more; unless the client says so."""
    wrong, exact, kills, twice = [], 0, 0, 0
    for seed in range(block * SEEDS, (block + 1) * SEEDS):
        schedule = JournalSchedule(any_server.client(), seed, failures=False)
        outcome = schedule.run()
        kills, twice = kills + schedule.kills, twice + schedule.twice
        recorded, issued = schedule.bounds()
        assert recorded == issued
        fault = schedule.fault(outcome)
        if fault is not None:
            wrong.append((seed, fault))
        exact += outcome.values == issued
    record_property("kills", kills)
    record_property("kills during a take-over", twice)
    assert kills > SEEDS
    assert twice > 0
    assert exact > SEEDS // 2
    assert wrong == []


@pytest.mark.slow("a hundred schedules")
@pytest.mark.parametrize("block", range(4))
def test_a_journal_that_fails_now_and_then(any_server: RealServer, block: int) -> None:
    """What was sent while it could not be written counts nothing twice; what was recorded is there, or it is said."""
    wrong, kills = [], 0
    for seed in range(block * SEEDS, (block + 1) * SEEDS):
        schedule = JournalSchedule(any_server.client(), seed, failures=True)
        fault = schedule.fault(schedule.run())
        kills += schedule.kills
        if fault is not None:
            wrong.append((seed, fault))
    assert kills > SEEDS
    assert wrong == []
