"""A seed makes one schedule and one run: the same steps, commands and answers, whatever bytes hash to."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SEEDS = 40
PROGRAM = """
import hashlib
from tests.simulation{of} import campaign
for seed in range({seeds}):
    lines = list(campaign.story(campaign.make_plan(seed)))
    print(seed, len(lines), hashlib.sha256("\\n".join(lines).encode()).hexdigest())
"""


@pytest.mark.slow("three processes each")
@pytest.mark.parametrize("of", ["", ".regions"])
def test_a_seed_makes_one_run(of: str) -> None:
    runs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM.format(of=of, seeds=SEEDS)],
            env={**os.environ, "PYTHONHASHSEED": hashes},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout.splitlines()
        for hashes in ("0", "1", "2")
    ]
    assert runs[0] == runs[1] == runs[2]
    assert len({line.split(" ", 1)[1] for line in runs[0]}) == SEEDS
    assert all(int(line.split()[1]) > 50 for line in runs[0])
