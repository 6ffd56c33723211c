"""Where Redis is, when a framework's settings do not say."""

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
    """Return what ``from_url`` makes. Raises as it does; where the environment's URL is wrong, it is named."""
    try:
        return from_url(url_or_default(url), **options)
    except UsageError as error:
        if url or not os.environ.get(URL_VARIABLE) or not str(error).startswith("url "):
            raise
        raise UsageError(f"{URL_VARIABLE}: {error}") from None
