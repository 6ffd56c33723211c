"""The command line as a process of its own, importing what the tests import."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from redis_counters import Counters
from tests.servers import RealServer

COMMAND = [sys.executable, "-m", "redis_counters.cli"]
TIMEOUT = 60
STARTED: list[subprocess.Popen[bytes]] = []
STREAMS = {"stdin": (0, "rb"), "stdout": (1, "wb"), "stderr": (2, "wb")}


def environment(server: RealServer | None, **more: str) -> dict[str, str]:
    """The environment of a command that counts on this server."""
    plain = {name: value for name, value in os.environ.items() if name != "REDIS_COUNTERS_URL"}
    where = {"REDIS_COUNTERS_URL": server.url} if server else {}
    return {**plain, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **where, **more}


def run(server: RealServer | None, *arguments: str | bytes, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end in a fork of a process that has imported it: the imports take most of its time.

    Its streams are files. What a command makes of pipes, terminals, signals and variables is tested by `start`.
    """
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["redis_counters.cli.app"])
    command = [os.fsdecode(argument) for argument in arguments]
    with tempfile.TemporaryDirectory() as folder:
        streams = Path(folder)
        (streams / "stdin").write_bytes(stdin)
        process = forks.Process(target=_run_here, args=(command, environment(server), streams), daemon=True)
        process.start()
        process.join(TIMEOUT)
        if process.is_alive():
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(command, TIMEOUT)
        written = ((streams / name).read_bytes() for name in ("stdout", "stderr"))
        return subprocess.CompletedProcess(command, process.exitcode or 0, *written)


def _run_here(command: list[str], variables: dict[str, str], streams: Path) -> None:
    os.environ.clear()
    os.environ.update(variables)
    for name, (number, mode) in STREAMS.items():
        with open(streams / name, mode) as stream:
            os.dup2(stream.fileno(), number)
        setattr(sys, name, os.fdopen(number, mode.rstrip("b"), encoding="utf-8", closefd=False))
    sys.argv = ["redis-counters", *command]
    runpy.run_module("redis_counters.cli", run_name="__main__", alter_sys=True)


def start(server: RealServer, *arguments: str | bytes, **options: Any) -> subprocess.Popen[bytes]:
    """Start a command with its standard streams in pipes, unless told otherwise; it is ended with the test."""
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    process = subprocess.Popen([*COMMAND, *arguments], **{"env": environment(server), **streams})
    STARTED.append(process)
    return process


def values(server: RealServer, names: Collection[bytes]) -> Counter[bytes]:
    """What a process that counted nothing reads of these names; those at 0 are left out."""
    with Counters.from_url(server.url) as counters:
        found = counters.get_many(names, max_age=0)
    return Counter({name: int(found[name]) for name in names if found[name]})
