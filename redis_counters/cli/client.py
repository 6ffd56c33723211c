"""Counters for the time of one command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from redis_counters import Counters
from redis_counters.errors import CounterError


@contextmanager
def opened(url: str, namespace: str, region: str) -> Iterator[Counters]:
    """Counters that are closed at the end; after an error at once, for the error is what is to be told."""
    counters = Counters.from_url(url, namespace=namespace, region=region)
    try:
        yield counters
    except BaseException:
        with suppress(CounterError):
            counters.close(timeout=0)
        raise
    counters.close()
