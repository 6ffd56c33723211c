"""Every code block of README.md and docs/ is run, and prints what the page says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, PageError, blocks
from tests.docs.run import Runner
from tests.docs.stand_ins import stand_ins
from tests.servers import RealServer

WITH_CODE = [page for page in PAGES if "```" in page.read_text()]
FAILING = "async def app(scope, receive, send):\n    1 / 0\n"
QUICKSTARTS = ["fastapi", "flask", "django"]


@pytest.mark.parametrize("name", QUICKSTARTS)
def test_a_quickstart_has_the_example(name: str) -> None:
    """Word for word: what tests/contrib serves to browsers, and what the page asks readers to save."""
    found = blocks((ROOT / "docs" / f"quickstart-{name}.md").read_text())
    example = (ROOT / "examples" / f"{name}_likes.py").read_text()
    assert f"# {name}_likes.py\n{example}" in [block.text for block in found]


@pytest.mark.every(8, "a process for each block")
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_runs(page: Path, private_server: RealServer, tmp_path: Path) -> None:
    """In a process and a folder of its own, on an empty server."""
    with stand_ins(page.read_text(), private_server.kind) as instead:
        done = subprocess.run(
            [sys.executable, "-m", "tests.docs.run", page],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
                "REDIS_COUNTERS_URL": private_server.url.removesuffix("/0"),
                "REDIS_COUNTERS_INSTEAD": json.dumps(instead),
            },
            capture_output=True,
            text=True,
            timeout=100,
        )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_the_pages_that_show_how_to_use_it_have_code() -> None:
    """A page that lost its blocks, or a fence that nobody finds, would leave nothing to run."""
    with_code = {str(page.relative_to(ROOT)) for page in WITH_CODE}
    howtos = {str(page.relative_to(ROOT)) for page in (ROOT / "docs" / "howto").glob("*.md")}
    assert len(howtos) >= 7
    assert with_code >= {"README.md", "docs/tutorial.md", *howtos}


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("```python\n1 + 1  # -> 3\n```\n", "expected:\n3"),
        ("```python\nx = 1  # -> 1\n```\n", "not an expression"),
        ("```python\ndef f():\n    f()  # -> 1\n```\n", "not an expression"),
        ("```python\nprint(1)\n```\n```text\n2\n```\n", "expected:\n2"),
        ("```python\nprint(1)\n```\n```text\n...\n```\n", "says nothing"),
        ("```python\nprint(1)\n```\n", "does not show it"),
        ("```python\n1\n```\nbetween\n```text\n1\n```\n", "must be the output"),
        ("```python\n# never.py\nprint(1)\n```\n", "never run: never.py"),
        ("```shell\nfalse\n```\n", "exit code 1"),
        ("```shell\necho 1\n```\n```text\n2\n```\n", "expected:\n2"),
        ("```shell\nmake nothing\n```\n", "no target"),
        ("```shell\npip install 'redis-counters[nothing]'\n```\n", "no extra"),
        ("```shell\npip install something-else\n```\n", "cannot check"),
        ("```shell\npip install redis-counters something-else\n```\n", "tested with 'something-else'"),
        ("```python\n# app.py\nraise SystemExit('no')\n```\n```shell\nuvicorn app:app\n```\n", "does not answer"),
        (f"```python\n# app.py\n{FAILING}```\n```shell\nuvicorn app:app\n```\n", "Error 500"),
        ("```console\n$ echo 1\n1\n$ echo 2\n3\n```\n", "expected:\n3"),
        ("```cobol\n```\n", "nobody checks"),
        ("```\n```\n", "nobody checks"),
        ("  ```python\n  ```\n", "beginning of a line"),
        ("```python\n", "not closed"),
    ],
)
def test_a_wrong_page_is_found(page: str, complaint: str, tmp_path: Path) -> None:
    """Each way in which a page can be wrong ends the run with an error that says so."""
    runner = Runner("redis://127.0.0.1:1", tmp_path)
    with pytest.raises(PageError) as failed:
        runner.run_page(page)
    assert complaint in str(failed.value)


def test_a_right_page_passes(tmp_path: Path) -> None:
    """The same checks let through what is right; names and files of earlier blocks are there in later ones."""
    page = (
        "```python\nx = 2\n```\n```python\nx + 1  # -> 3\nprint(x)\n```\n\n```text\n2\n```\n"
        "```python\n# saved.py\nprint('redis://localhost:6379')\n```\n"
        "```shell\nmake test\npip install 'redis-counters[cli]'\npython saved.py\n```\n```text\nredis://local...\n```\n"
        "```console\n$ echo 1\n1\n$ true\n```\n"
    )
    runner = Runner("redis://127.0.0.1:1", tmp_path)
    assert runner.run_page(page) == 5
    assert runner.names["x"] == 2
    assert "127.0.0.1:1" in (tmp_path / "saved.py").read_text()
