"""A bit that flips, or an end that is missing: what is told is exact, or it is reported, and is never too much."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from redis_counters.drivers.journal import salvage
from tests.journal.flipping import JOURNALS, Case, made, verdict

FLIPS = 120
CUTS = 30


@pytest.mark.every(2, "more of the same")
@pytest.mark.parametrize("page", [512, 4096])
@pytest.mark.parametrize("checkpointed", [False, True], ids=["log", "file"])
@pytest.mark.every(3, "more of the same")
@pytest.mark.parametrize("which", JOURNALS)
def test_some_of_each_part(tmp_path: Path, which: str, checkpointed: bool, page: int) -> None:
    """Of the file, of its log and of what says how far it was written: some bits, and some ends."""
    journal = made(which, tmp_path, page=page, checkpointed=checkpointed)
    chance = random.Random(f"{which} {checkpointed} {page}")
    found: Counter[str] = Counter()
    for part, content in journal.parts.items():
        bits = range(len(content) * 8)
        for bit in chance.sample(bits, min(FLIPS, len(bits))):
            found[verdict(journal, Case(part, "flip", bit), tmp_path)] += 1
        for size in chance.sample(range(len(content)), min(CUTS, len(content))):
            found[verdict(journal, Case(part, "cut", size), tmp_path)] += 1
    assert found["reported, all told"] > 20, found


@pytest.mark.parametrize("checkpointed", [False, True], ids=["log", "file"])
def test_every_bit_of_what_says_how_far(tmp_path: Path, checkpointed: bool) -> None:
    """The lock file, all of it: whatever is wrong there, all of the journal is told, and that is reported."""
    journal = made("called", tmp_path, page=4096, checkpointed=checkpointed)
    for bit in range(len(journal.parts[".lock"]) * 8):
        assert verdict(journal, Case(".lock", "flip", bit), tmp_path) == "reported, all told"


def test_it_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told as they are, earlier states of a log count too much."""
    monkeypatch.setattr(salvage, "_safe", lambda found, mark: found.stored)
    journal = made("flushed", tmp_path, page=4096, checkpointed=False)
    with pytest.raises(AssertionError, match="is 13 of 8; it lacks the last 7 of 9 writes"):
        verdict(journal, Case(".journal-wal", "cut", 32 + 2 * (24 + 4096)), tmp_path)
