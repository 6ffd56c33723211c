"""``bucket``: the bucket of an empty server, of every kind in turn."""

from __future__ import annotations

import pytest

from tests.lua.calls import Bucket
from tests.servers import RealServer


@pytest.fixture
def bucket(server: RealServer) -> Bucket:
    return Bucket(server.client())
