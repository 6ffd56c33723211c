"""Each promise of guarantees.md names the tests that hold it, and they are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, section, table

PAGE = ROOT / "docs" / "guarantees.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


@cache
def functions_of(path: Path) -> set[str]:
    """Return the names of the functions in a file, read without running it."""
    defined = ast.walk(ast.parse(path.read_text()))
    return {node.name for node in defined if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def missing(text: str) -> list[str]:
    """Return the tests that a page names and that are nowhere."""
    wrong = []
    for file, name in NAMED.findall(text):
        path = ROOT / file
        if not path.is_file() or (name and name not in functions_of(path)):
            wrong.append(f"{file}::{name}")
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_tests_are_there(page: Path) -> None:
    assert missing(page.read_text()) == []


def test_a_test_that_is_not_there_is_found() -> None:
    here = "tests/docs/test_guarantees.py"
    text = f"`{here}::test_guarantees_nothing` `tests/nowhere.py::test_it` `{here}::test_every_row_is_held` `{here}`"
    assert missing(text) == [f"{here}::test_guarantees_nothing", "tests/nowhere.py::test_it"]


@pytest.mark.parametrize("heading", ["What a failure costs", "Kinds of faults"])
def test_every_row_is_held(heading: str) -> None:
    """By one test at least, and by nothing but tests."""
    for row in table(section(PAGE.read_text(), heading)):
        named = NAMED.findall(row["held by"])
        assert named, row
        assert all(name.startswith("test_") for _, name in named), row
        assert NAMED.sub("", row["held by"]).strip(", ") == "", row


def test_every_kind_is_in_the_table() -> None:
    """No file of tests/fault_kinds holds something that the page does not tell of."""
    named = {file for file, _ in NAMED.findall(PAGE.read_text())}
    assert {str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "kinds").glob("test_*.py")} <= named
