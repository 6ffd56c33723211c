"""A manage.py: `python -m tests.contrib.apps.django_manage runserver`."""

from __future__ import annotations

import os
import sys

from django.core.management import execute_from_command_line
from django.http import HttpRequest, HttpResponse
from django.urls import path

from redis_counters import exit_on_sigterm
from tests.contrib.apps import django_app


def root(request: HttpRequest) -> HttpResponse:
    """As that of the application, without a header that this server wants to set itself."""
    response = django_app.root(request)
    del response["Connection"]
    return response


if __name__ == "__main__":
    django_app.urlpatterns[:] = [path("", root)]
    if "EXIT_ON_SIGTERM" in os.environ:
        exit_on_sigterm()
    execute_from_command_line(sys.argv)
