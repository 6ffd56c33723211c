"""The setting REDIS_COUNTERS, and the URL and options that it gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

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
