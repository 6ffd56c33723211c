"""Django, with counters that were used before a fork."""

from __future__ import annotations

import os

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path

from redis_counters.contrib.django import counters
from redis_counters.contrib.django.asgi import get_asgi_application

settings.configure(
    SECRET_KEY="of a test",  # noqa: S106 - it keeps no secret
    ALLOWED_HOSTS=["127.0.0.1"],
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=["redis_counters.contrib.django"],
    CACHES={"default": {"BACKEND": "redis_counters.contrib.django.cache.CounterCache"}},
    REDIS_COUNTERS={"OPTIONS": {"flush_interval": 30.0}},
)
application = get_wsgi_application()
asgi_application = get_asgi_application()

from django.core.cache import cache  # noqa: E402 - of the settings above


def root(_request: HttpRequest) -> HttpResponse:
    counters.incr("requests")
    assert cache.incr("amounts", 3) >= 3
    return HttpResponse(str(os.getpid()), headers={"Connection": "close"})


urlpatterns = [path("", root)]

counters.incr("loads")
