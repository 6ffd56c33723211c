"""Errors of counting become responses: in MIDDLEWARE, ``"redis_counters.contrib.django.middleware.CounterErrors"``."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.utils.deprecation import MiddlewareMixin

from redis_counters.contrib.django.requests import BadIdempotencyKey
from redis_counters.contrib.http_errors import Answer, answer
from redis_counters.errors import CounterError

__all__ = ["CounterErrors"]


class CounterErrors(MiddlewareMixin):  # type: ignore[misc]  # Django has no types
    """Errors of this library that a view raises become 400, 422 or 503, each with a sentence as plain text."""

    def process_exception(self, _request: Any, error: Exception) -> Any:
        if isinstance(error, BadIdempotencyKey):
            found: Answer | None = Answer(400, str(error), {})
        else:
            found = answer(error) if isinstance(error, CounterError) else None
        if found is None:
            return None
        return HttpResponse(
            found.sentence, status=found.status, headers=dict(found.headers), content_type="text/plain; charset=utf-8"
        )
