"""What importing costs, in fresh interpreters that take turns."""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile

from benchmarks.harness import Row, Size, environment, ratio, take_turns
from benchmarks.server import Server

MODULES = ("redis_counters", "redis")


def rows(_server: Server, size: Size) -> list[Row]:
    with tempfile.TemporaryDirectory() as compiled:  # as an installer does it, whatever this machine's settings are
        for module in MODULES:
            _import(module, compiled)
        ours, theirs = take_turns(size.imports, *(functools.partial(_import, module, compiled) for module in MODULES))
    note = f"{min(ours) * 1e3:.0f} ms, {min(theirs) * 1e3:.0f} ms"
    return [Row("import redis_counters / import redis", ratio(ours, theirs), at_most=1.3, note=note)]


def _import(module: str, compiled: str) -> float:
    code = f"import time; begin = time.perf_counter(); import {module}; print(time.perf_counter() - begin)"
    env = {**environment(), "PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60, env=env)
    return float(done.stdout)
