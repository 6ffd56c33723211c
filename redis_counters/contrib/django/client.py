"""The client of this process, made by the setting REDIS_COUNTERS, and its end when a test overrides that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from redis_counters._blocking.counters import Counters
from redis_counters.contrib.proxy import Lazy
from redis_counters.contrib.url_config import opened
from redis_counters.errors import Unavailable, UsageError
from redis_counters.protocol.wire.values import Name

SETTING = "REDIS_COUNTERS"


def url_and_options() -> tuple[str | None, dict[str, Any]]:
    """Return the URL and the options of the settings. Raises ImproperlyConfigured."""
    setting = getattr(settings, SETTING, {})
    if not isinstance(setting, Mapping):
        raise ImproperlyConfigured(f"{SETTING} must be a dict with the keys URL and OPTIONS")
    if unknown := ", ".join(sorted(map(str, setting.keys() - {"URL", "OPTIONS"}))):
        raise ImproperlyConfigured(f"{SETTING} has the keys URL and OPTIONS, not {unknown}: options go into OPTIONS")
    options = setting.get("OPTIONS", {})
    if not isinstance(options, Mapping):
        raise ImproperlyConfigured(f"{SETTING}['OPTIONS'] must be a dict")
    return setting.get("URL"), dict(options)


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
