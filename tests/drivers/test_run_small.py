"""The stand-alone script that other versions of Python and redis-py are tried with, under this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import RealServer
from tests.topologies import Cluster, Sentinels

SCRIPT = Path(__file__).with_name("run_small.py")
ROOT = SCRIPT.parents[2]

WITHOUT_HIREDIS = f"""
import sys
sys.modules["hiredis"] = None  # as if it were not installed: its import fails
sys.argv[0] = {str(SCRIPT)!r}
import redis.connection
assert "Hiredis" not in redis.connection.DefaultParser.__name__
import runpy
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("hiredis", [True, False], ids=["with hiredis", "without hiredis"])
def test_run_small(server: RealServer, cluster: Cluster, sentinels: Sentinels, hiredis: bool) -> None:
    """A fresh interpreter counts exactly on every kind of server, with hiredis and without."""
    how = [str(SCRIPT)] if hiredis else ["-c", WITHOUT_HIREDIS]
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error::ResourceWarning",
            *how,
            server.url,
            sentinels.url,
            cluster.url.partition(",")[0],
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("exact with Python")
    assert ("Hiredis" in done.stdout) == hiredis
    assert "Warning" not in done.stderr
