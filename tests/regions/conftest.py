"""Regions, each a server of another kind: ``two`` and ``three`` of them, fresh for one test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import NO_SERVER
from tests.regions.support import NAMES, Regions, regions
from tests.servers import kinds


@pytest.fixture
def two() -> Iterator[Regions]:
    """Two regions, which tests may break."""
    if not kinds():
        pytest.skip(NO_SERVER)
    with regions(NAMES[:2]) as found:
        yield found


@pytest.fixture
def three() -> Iterator[Regions]:
    """Three regions, which tests may break."""
    if not kinds():
        pytest.skip(NO_SERVER)
    with regions() as found:
        yield found
