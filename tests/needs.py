"""What some tests need besides a server: without it they are skipped, unless it is required to be here."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.util import find_spec
from typing import NoReturn

import pytest

REQUIRED = "REDIS_COUNTERS_REQUIRE"
KNOWN = ("mount", "matplotlib", "compose")


def required() -> set[str]:
    """Return what must be here. Raises UsageError for what no test asks for."""
    asked = {word.strip() for word in os.environ.get(REQUIRED, "").split(",")} - {""}
    if unknown := asked - set(KNOWN):
        raise pytest.UsageError(
            f"{REQUIRED}: {', '.join(sorted(unknown))}: no test needs that; known: {', '.join(KNOWN)}"
        )
    return asked


def lacks(what: str, why: str) -> NoReturn:
    """The test cannot run here: it is skipped, or fails if that is required."""
    assert what in KNOWN
    if what in required():
        pytest.fail(f"{REQUIRED}: {what}: {why}")
    pytest.skip(why)


def needs_matplotlib() -> None:
    if find_spec("matplotlib") is None:
        lacks("matplotlib", "the picture needs matplotlib, of the group bench")


def needs_package(name: str) -> None:
    """Look for it only: eventlet, once imported, warns at each fork of this process for ever after."""
    if find_spec(name) is None:
        pytest.skip(f"the package {name} is not installed")


def compose() -> list[str]:
    """Return the command of Docker Compose, in either of its forms."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) and not subprocess.run([*command, "version"], capture_output=True).returncode:
            return command
    lacks("compose", "neither docker compose nor docker-compose is here")
