"""The client of this process, and its end when a test overrides the settings."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured

from redis_counters._blocking.counters import Counters
from redis_counters.contrib.django.config import SETTING, url_and_options
from redis_counters.contrib.proxy import Lazy
from redis_counters.contrib.url_config import opened
from redis_counters.errors import Unavailable, UsageError
from redis_counters.protocol.wire.values import Name


def make() -> Counters:
    """Return a client as the settings say. Raises ImproperlyConfigured; Unavailable for an embedded server."""
    url, options = url_and_options()
    try:
        return opened(Counters.from_url, url, options)
    except (TypeError, UsageError) as error:
        raise ImproperlyConfigured(f"{SETTING}: {error}") from error


counters = Lazy(make)
"""The counters of this process, with all methods of `Counters`: made at the first use, flushed at the exit."""


def last_known(name: Name) -> int | None:
    """Return the value as this process last knew it, with what it has counted since; None if it never knew."""
    try:
        return counters.get(name, max_age=float("inf"))
    except Unavailable:
        return None


def restart(*, setting: str, **_signal: Any) -> None:
    """Close the client; the next use makes one by the settings as they are then."""
    if setting == SETTING:
        counters._end()
