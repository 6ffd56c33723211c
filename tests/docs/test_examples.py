"""The programs of examples/ run, and count exactly."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.servers import RealServer

EXAMPLES = {
    "hot_counter.py": (["3", "5000"], "issued 15000, counted 15000, in "),
    "seed_from_sqlite.py": (["3"], "50 totals, seeded by 3 processes, 0 of them wrong"),
    "celery_emails.py": (["20"], "20 e-mails, "),
    "asyncio_votes.py": ([], "yes 666, no 334; replies lost: "),
}
SERVED = {"fastapi_likes.py", "flask_likes.py", "django_likes.py", "litestar_likes.py"}  # tests/contrib


def test_every_example_is_run() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == EXAMPLES.keys() | SERVED


@pytest.mark.every(2, "a process each")
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example(name: str, any_server: RealServer, tmp_path: Path) -> None:
    arguments, expected = EXAMPLES[name]
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / name, *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "REDIS_COUNTERS_URL": any_server.url},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert expected in done.stdout
