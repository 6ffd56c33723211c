"""Nothing stands twice, once with ``await``: what both faces do alike is written for asyncio, and the other follows."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import pytest

from tests.blocking import MODULES, PACKAGE

RUN = 4  # equal lines in a row that count: fewer are the shape of the language, not a decision
MOST = 100  # lines in such runs
SHORTEST = 8  # characters of a line that counts


def plain_lines(path: Path) -> list[str]:
    """Return the lines of a module without await, imports and comments."""
    lines = (re.sub(r"\b(async|await)\s+", "", line).strip() for line in path.read_text().splitlines())
    skipped = ("#", "import ", "from ", '"""', "@")
    return [line for line in lines if len(line) > SHORTEST and not line.startswith(skipped)]


def equal(one: list[str], other: list[str]) -> int:
    """Return how many lines of two modules stand in both, in runs."""
    blocks = difflib.SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks if block.size >= RUN)


def test_few_lines_stand_twice() -> None:
    """By pairs of a module that awaits and one that does not; what is generated is nobody's to write."""
    written = {path: plain_lines(path) for path in PACKAGE.rglob("*.py")}
    for target in MODULES.values():
        del written[PACKAGE / target]
    awaits = {path for path in written if re.search(r"^\s*async def", path.read_text(), flags=re.MULTILINE)}
    twice = {
        (str(one.relative_to(PACKAGE)), str(other.relative_to(PACKAGE))): lines
        for one in awaits
        for other in written.keys() - awaits
        if (lines := equal(written[one], written[other]))
    }
    assert sum(twice.values()) < MOST, sorted(twice.items(), key=lambda item: -item[1])


@pytest.mark.parametrize("origin", MODULES)
def test_the_blocking_module_says_what_it_follows_from(origin: str) -> None:
    """So nobody changes the wrong one. (`make check`, which has the formatter, looks whether it is up to date.)"""
    first = (PACKAGE / MODULES[origin]).read_text().splitlines()[0]
    assert first == f"# Generated from redis_counters/{origin} by `make blocking`: change that."


def test_it_notices_what_stands_twice(tmp_path: Path) -> None:
    """The measure itself: a copy without await is found, whole."""
    awaited, copy = tmp_path / "awaited.py", tmp_path / "copy.py"
    lines = [f"    found_{n} = await ask(question_{n})\n" for n in range(20)]
    awaited.write_text("".join(lines))
    copy.write_text("".join(line.replace("await ", "") for line in lines))
    assert equal(plain_lines(awaited), plain_lines(copy)) == len(lines)
