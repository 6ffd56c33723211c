"""Django: counters by settings, a template tag, a cache whose `incr` needs no key.

INSTALLED_APPS = [..., "redis_counters.contrib.django"]
REDIS_COUNTERS = {"URL": "redis://localhost:6379", "OPTIONS": {"namespace": "shop"}}

from redis_counters.contrib.django import counters
counters.incr("views")
"""

from redis_counters.contrib.django.client import counters
from redis_counters.contrib.django.requests import idempotency_key

__all__ = ["counters", "idempotency_key"]
