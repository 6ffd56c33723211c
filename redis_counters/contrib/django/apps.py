"""The application that Django loads for an entry in INSTALLED_APPS."""

import sys
from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.core.signals import setting_changed

from redis_counters.contrib.django.check import check_settings
from redis_counters.contrib.django.client import counters, restart


class CountersConfig(AppConfig):  # type: ignore[misc]  # Django has no types
    """``manage.py check`` sees the settings, tests may override them, Celery's processes flush when they end."""

    name = "redis_counters.contrib.django"
    label = "redis_counters"
    verbose_name = "Redis counters"

    def ready(self) -> None:
        checks.register(check_settings)
        setting_changed.connect(restart)
        if "celery" in sys.modules:  # it may be its worker, whose processes run no hooks of atexit
            from celery.signals import worker_process_shutdown

            worker_process_shutdown.connect(_ends, weak=False)


def _ends(**_signal: Any) -> None:
    counters._end()
