"""Where Redis is, when a framework's settings do not say."""

from __future__ import annotations

import os

from redis_counters.drivers.urls import DEFAULT_URL, URL_VARIABLE


def url_or_default(url: str | None) -> str:
    """Return the URL, else that of the environment, else that of a local Redis. Looked up at each call."""
    return url or os.environ.get(URL_VARIABLE) or DEFAULT_URL
