"""``bucket``: the bucket of an empty server, of every kind in turn; ``any_bucket``: of one."""

from __future__ import annotations

import pytest

from tests.lua.calls import Bucket
from tests.servers import RealServer


@pytest.fixture
def bucket(server: RealServer) -> Bucket:
    return Bucket(server.client())


@pytest.fixture
def any_bucket(any_server: RealServer) -> Bucket:
    """Where a script is compared with the algebra: in each kind of server it is the same script."""
    return Bucket(any_server.client())
