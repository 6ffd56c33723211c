"""A process that counts with a journal, and is killed: as a program of its own, so that nothing is inherited."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LIMIT = 60

START = """
import asyncio, os, signal, sys
import redis, redis.asyncio
import redis_counters, redis_counters.asyncio
from redis_counters import CounterError

url, directory, face, mode, *arguments = sys.argv[1:]

def killed():
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)

def counters_of(address=None, **options):
    module = redis_counters if face == "blocking" else redis_counters.asyncio
    return module.Counters.from_url(
        address or url, journal=directory, journal_mode=mode, **{"flush_interval": 0.01, **options}
    )

async def done(result):
    return await result if asyncio.iscoroutine(result) else result

async def recorded(counters):
    # Where Redis is away: a round records first, and the one that fails now may have begun before.
    failures = counters.stats().failures
    while counters.stats().failures < failures + 2:
        await asyncio.sleep(0.01)

async def main():
"""
END = """
asyncio.run(main())
"""


def program(body: str, before: str = "") -> str:
    """Return a program with that body of ``main``; ``before`` comes first, at the top level."""
    return textwrap.dedent(before) + START + textwrap.indent(textwrap.dedent(body).strip(), "    ") + END


def run(text: str, url: str, directory: Path, face: str, mode: str, *arguments: Any, killed: bool | None = True) -> str:
    """Return what the program printed; it must have been killed (or must not, or either)."""
    done = subprocess.run(
        [sys.executable, "-c", text, url, str(directory), face, mode, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        cwd=ROOT,
    )
    ended = -signal.SIGKILL if killed else 0
    assert done.returncode == ended or (killed is None and done.returncode in (0, -signal.SIGKILL)), done.stderr
    return done.stdout


def start(text: str, url: str, directory: Path, face: str, mode: str, *arguments: Any) -> subprocess.Popen[str]:
    """Return the running program."""
    return subprocess.Popen(
        [sys.executable, "-c", text, url, str(directory), face, mode, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
