"""The URL of Redis, when a framework's settings have none."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from redis_counters.drivers.urls import DEFAULT_URL, URL_VARIABLE
from redis_counters.errors import UsageError

T = TypeVar("T")


def url_or_default(url: str | None) -> str:
    """Return the URL, else that of the environment, else that of a local Redis. Looked up at each call."""
    return url or os.environ.get(URL_VARIABLE) or DEFAULT_URL


def opened(from_url: Callable[..., T], url: str | None, options: Mapping[str, Any]) -> T:
    """Return the client that ``from_url`` makes. Raises as it does; an error names the variable it comes from."""
    try:
        return from_url(url_or_default(url), **options)
    except UsageError as error:
        if url or not os.environ.get(URL_VARIABLE) or not str(error).startswith("url "):
            raise
        raise UsageError(f"{URL_VARIABLE}: {error}") from None
