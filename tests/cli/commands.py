"""The command line as a process of its own, importing what the tests import."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Collection
from typing import Any

from redis_counters import Counters
from tests.servers import RealServer

COMMAND = [sys.executable, "-m", "redis_counters.cli"]
TIMEOUT = 60
STARTED: list[subprocess.Popen[bytes]] = []


def environment(server: RealServer | None, **more: str) -> dict[str, str]:
    """The environment of a command that counts on this server."""
    plain = {name: value for name, value in os.environ.items() if name != "REDIS_COUNTERS_URL"}
    where = {"REDIS_COUNTERS_URL": server.url} if server else {}
    return {**plain, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **where, **more}


def run(server: RealServer | None, *arguments: str | bytes, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end, with its output in pipes."""
    return subprocess.run(
        [*COMMAND, *arguments], input=stdin, capture_output=True, timeout=TIMEOUT, env=environment(server)
    )


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
