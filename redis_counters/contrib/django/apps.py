"""What Django loads for an entry in INSTALLED_APPS."""

from django.apps import AppConfig
from django.core import checks
from django.core.signals import setting_changed

from redis_counters.contrib.django.check import check_settings
from redis_counters.contrib.django.client import begin_anew


class CountersConfig(AppConfig):  # type: ignore[misc]  # Django has no types
    """``manage.py check`` looks at the settings; tests may override them."""

    name = "redis_counters.contrib.django"
    label = "redis_counters"
    verbose_name = "Redis counters"

    def ready(self) -> None:
        checks.register(check_settings)
        setting_changed.connect(begin_anew)
