"""The client of this process, and its end when a test overrides the settings."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured

from redis_counters._blocking.counters import Counters
from redis_counters.contrib.django.config import SETTING, url_and_options
from redis_counters.contrib.proxy import Lazy
from redis_counters.contrib.url_config import opened
from redis_counters.errors import UsageError


def make() -> Counters:
    """Return a client as the settings say. Raises ImproperlyConfigured; Unavailable for an embedded server."""
    url, options = url_and_options()
    try:
        return opened(Counters.from_url, url, options)
    except (TypeError, UsageError) as error:
        raise ImproperlyConfigured(f"{SETTING}: {error}") from error


counters = Lazy(make)
"""The counters of this process, with all methods of `Counters`: made at the first use, delivered at the exit."""


def begin_anew(*, setting: str, **_signal: Any) -> None:
    """The next use goes by the settings as they are now."""
    if setting == SETTING:
        counters._end()
