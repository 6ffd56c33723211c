"""``manage.py check``: whether the settings can be used, without asking Redis."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured

from redis_counters._blocking.counters import Counters
from redis_counters.contrib.django.client import SETTING, url_and_options
from redis_counters.contrib.url_config import opened, url_or_default
from redis_counters.errors import UsageError


def check_settings(**_wanted: Any) -> list[CheckMessage]:
    """Return an error if the setting REDIS_COUNTERS cannot be used."""
    try:
        url, options = url_and_options()
        if urlsplit(url_or_default(url)).scheme == "embedded":  # making one starts a server
            url = "redis://localhost"
        for option in ("journal", "journal_mode"):  # commands are also run where its directory cannot be written
            options.pop(option, None)
        opened(Counters.from_url, url, options).close(timeout=0)
    except ImproperlyConfigured as error:
        return [Error(str(error), id="redis_counters.E001")]
    except (TypeError, UsageError) as error:
        return [Error(f"{SETTING}: {error}", id="redis_counters.E001")]
    return []
