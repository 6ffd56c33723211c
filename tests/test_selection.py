"""`make test` and `make test-rest` run each test once between them, wherever it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.selection import REASON

ROOT = Path(__file__).parent.parent
TESTS = """
import pytest
from tests.servers import Kind

@pytest.fixture
def any_cluster(): pass

def test_any(): pass
def test_with_a_cluster(any_cluster): pass
@pytest.mark.parametrize("face", ["blocking", "asyncio"])
def test_face(face): pass
@pytest.mark.parametrize("kind", [Kind("some-other", "")], ids=["other"])
def test_kind(kind): pass
@pytest.mark.slow("it waits")
def test_slow(): pass
@pytest.mark.every(2, "more of the same")
@pytest.mark.parametrize("row", range(3))
def test_row(row): pass
"""
MOST = {"test_any", "test_face[blocking]", "test_row[0]", "test_row[2]"}
REST = {"test_with_a_cluster", "test_kind[other]", "test_slow", "test_row[1]"}
SECOND = "test_face[asyncio]"
NEW, BOTH = "test_new.py", "faces/test_faces.py"
LEFT = "left to make test-all: 9 tests (clusters 2, other servers 2, slow 2, rows of one test 2, the second face 1)"


def run(folder: Path, *arguments: str) -> tuple[set[str], set[str], str]:
    """Return which tests pass in the new folder and in that of both faces, and the line before the last."""
    command = [sys.executable, "-m", "pytest", "-p", "tests.selection", "-p", "no:cacheprovider", "-v", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = {word for line in done.stdout.splitlines() if "PASSED" in line for word in line.split() if "::" in word}
    new, both = ({word.split("::")[1] for word in passed if word.startswith(name)} for name in (NEW, BOTH))
    return new, both, done.stdout.splitlines()[-2]


def test_most_and_the_rest_are_all(tmp_path: Path) -> None:
    """Also in a folder that no rule names; what is left is told of, also where other processes ran the tests."""
    for name in (NEW, BOTH):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(TESTS)
    assert run(tmp_path) == (MOST, MOST | {SECOND}, LEFT)
    assert run(tmp_path, "-p", "xdist.plugin", "-n", "2") == (MOST, MOST | {SECOND}, LEFT)
    assert run(tmp_path, "--rest")[:2] == (REST | {SECOND}, REST)
    new, both, line = run(tmp_path, "--all")
    assert new == both == MOST | REST | {SECOND}
    assert "left to" not in line


def test_this_run_has_what_the_rules_say(request: pytest.FixtureRequest) -> None:
    """And what is marked says why."""
    items = request.session.items
    left = {item.stash[REASON] is not None for item in items}
    assert left <= {"most": {False}, "rest": {True}, "all": {True, False}}[request.config.getoption("selection")]
    marks = [mark for item in items for name in ("slow", "every") for mark in item.iter_markers(name)]
    assert all(isinstance(mark.args[-1], str) and mark.args[-1] for mark in marks)
