"""What importing costs, in fresh interpreters that take turns."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.harness import Row, Size, ratio, take_turns
from benchmarks.server import Server

ROOT = Path(__file__).resolve().parent.parent


def rows(_server: Server, size: Size) -> list[Row]:
    ours, theirs = take_turns(size.imports, lambda: _import("redis_counters"), lambda: _import("redis"))
    note = f"{min(ours) * 1e3:.0f} ms, {min(theirs) * 1e3:.0f} ms"
    return [Row("import redis_counters / import redis", ratio(ours, theirs), at_most=1.3, note=note)]


def _import(module: str) -> float:
    code = f"import time; begin = time.perf_counter(); import {module}; print(time.perf_counter() - begin)"
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60, env=env)
    return float(done.stdout)
