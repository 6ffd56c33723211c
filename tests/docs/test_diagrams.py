"""The design stays short, and its pictures name scripts, answers and participants that are there."""

from __future__ import annotations

import re

import pytest

from redis_counters.protocol.wire.commands import CONTRACTS
from redis_counters.protocol.write.states import Doubt
from tests.docs.pages import PAGES, ROOT, blocks, section

DESIGN = ROOT / "docs" / "design.md"
PICTURES = [
    pytest.param(block.text, id=f"{page.name}:{block.line}")
    for page in PAGES
    for block in blocks(page.read_text())
    if block.language == "mermaid" and not block.text.startswith("stateDiagram")  # these are printed from code
]
SCRIPTS = {path.stem for path in (ROOT / "lua").glob("*.lua")}
WORDS = {word for contract in CONTRACTS.values() for word in contract.replies} | {"HGET", "HGETALL", "SCAN", "TD", "LR"}
PARTICIPANTS = {"caller", "client", "Redis", "janitor", "exchange", "source", "destination", "old", "new"}


def test_the_design_is_short() -> None:
    text = DESIGN.read_text()
    assert len(text.split()) < 5000
    assert text.count("```mermaid\n") >= 5


def test_the_design_has_every_doubt() -> None:
    """Those of the table of states, by their names in the code."""
    text = section(DESIGN.read_text(), "The actor's doubts")
    assert {doubt.name for doubt in Doubt} <= set(re.findall(r"`(\w+)`", text))


@pytest.mark.parametrize("picture", PICTURES)
def test_pictures_name_what_is_there(picture: str) -> None:
    """Each `name_with_underscore` is a script or an option, and each word in capitals is an answer or a command."""
    options = {"actor_ttl", "reassert_window", "reassert_windows"}
    assert set(re.findall(r"\b[a-z]+_[a-z]+\b", picture)) <= SCRIPTS | options
    assert set(re.findall(r"\b[A-Z]{2,}\b", picture)) <= WORDS
    if picture.startswith("sequenceDiagram\n"):
        declared = set(re.findall(r"^ *participant (\w+)", picture, re.MULTILINE))
        arrows = re.findall(r"^ *(\w+) *-[-x>)]*[>x)] *(\w+):", picture, re.MULTILINE)
        notes = re.findall(r"^ *Note over ([\w,]+):", picture, re.MULTILINE)
        lines = [line for line in picture.splitlines()[1:] if not line.lstrip().startswith("participant")]
        assert len(arrows) + len(notes) == len(lines)
        assert {each for arrow in arrows for each in arrow} == declared
        assert {each for note in notes for each in note.split(",")} <= declared <= PARTICIPANTS
