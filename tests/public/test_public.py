"""What users rely on is what was recorded: whoever changes it sees that, and says it in the changelog."""

from __future__ import annotations

import difflib

import pytest

from tests.public.interface import PARTS, RECORDED


@pytest.mark.parametrize("title", PARTS)
def test_it_is_as_recorded(title: str) -> None:
    """``python -m tests.public.interface`` records what has changed on purpose."""
    recorded = RECORDED.read_text().split(f"# {title}\n\n")[1].split("\n\n# ")[0].strip().splitlines()
    found = list(PARTS[title]())
    assert found
    assert found == recorded, "\n".join(difflib.unified_diff(recorded, found, "recorded", "found", lineterm=""))
