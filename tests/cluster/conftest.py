"""A link to each server of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from redis_counters.testing import LossyLink
from tests.cluster.links import Links
from tests.topologies.clusters import Cluster


@pytest.fixture
def links(any_cluster: Cluster) -> Iterator[Links]:
    """A link to each server of the cluster, by the server's address."""
    with ExitStack() as stack:
        yield {
            (host, port): stack.enter_context(LossyLink(f"redis://{host}:{port}"))
            for host, port in any_cluster.addresses
        }
