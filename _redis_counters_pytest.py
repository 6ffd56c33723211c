"""Fixtures for tests of code that counts: `counters`, `async_counters`, `counters_url`, `lossy_link`.

pytest loads this module wherever the library is installed. So it stands beside the package and not in it: importing it
imports nothing of the library before a test asks for a fixture, and measuring what tests cover begins before that.
A project's own fixtures of these names take precedence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import redis_counters
    import redis_counters.asyncio
    from redis_counters.testing import LossyLink


@pytest.fixture
def counters_url() -> Iterator[str]:
    """A URL of data for this test alone, in memory: what your code opens by it, `counters` sees, flushed.

    It needs the extra `testing`.
    """
    import secrets

    from redis_counters.drivers.urls import forget_memory

    name = f"pytest-{secrets.token_hex(16)}"
    yield f"memory://{name}"
    forget_memory(name)


@pytest.fixture
def counters(counters_url: str) -> Iterator[redis_counters.Counters]:
    """A `redis_counters.Counters` in memory, empty, on `counters_url`; closed after the test."""
    from redis_counters import Counters

    with Counters.from_url(counters_url) as made:
        yield made


@pytest.fixture
def async_counters(counters_url: str) -> Iterator[redis_counters.asyncio.Counters]:
    """A `redis_counters.asyncio.Counters` in memory, on `counters_url`; closed after the test.

    The fixture itself is none of asyncio, so it goes with pytest-asyncio, anyio, or `asyncio.run` in the test.
    """
    from redis_counters.asyncio import Counters
    from redis_counters.testing.close import close_anywhere

    made = Counters.from_url(counters_url)
    yield made
    close_anywhere(made)


@pytest.fixture
def lossy_link() -> Iterator[LossyLink]:
    """A `LossyLink` before a real server of this test alone; connect to its ``url``.

    The server is the one of ``embedded://``: valkey-server or redis-server on PATH, else of the extra `embedded`.
    """
    from redis_counters.drivers.embedded import EmbeddedServer
    from redis_counters.testing import LossyLink

    with EmbeddedServer.start() as server, LossyLink(server.url) as link:
        yield link
