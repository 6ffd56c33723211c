"""No command outlives its test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.commands import STARTED


@pytest.fixture(autouse=True)
def _nothing_left_running() -> Iterator[None]:
    """End what a failed test left behind, so that it is the only one that fails."""
    yield
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None and not pipe.closed:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue
