"""What some tests need besides a server: without it they are skipped, unless it is required to be here."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

REQUIRED = "REDIS_COUNTERS_REQUIRE"
KNOWN = ("mount", "matplotlib")


def required() -> set[str]:
    """Return what must be here. Raises UsageError for what no test asks for."""
    asked = {word.strip() for word in os.environ.get(REQUIRED, "").split(",")} - {""}
    if unknown := asked - set(KNOWN):
        raise pytest.UsageError(
            f"{REQUIRED}: {', '.join(sorted(unknown))}: no test needs that; known: {', '.join(KNOWN)}"
        )
    return asked


def lacks(what: str, why: str) -> None:
    """The test cannot run here: it is skipped, or fails if that is required."""
    assert what in KNOWN
    if what in required():
        pytest.fail(f"{REQUIRED}: {what}: {why}")
    pytest.skip(why)


def needs_matplotlib() -> None:
    if find_spec("matplotlib") is None:
        lacks("matplotlib", "the picture needs matplotlib, of the group bench")
