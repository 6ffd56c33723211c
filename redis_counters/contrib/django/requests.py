"""The Idempotency-Key of a request."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import BadRequest

from redis_counters.contrib.idempotency import HEADER, BadKeyError, header_key, scoped
from redis_counters.errors import UsageError
from redis_counters.protocol.keyed.calls import User


class BadIdempotencyKey(BadRequest):  # type: ignore[misc]  # Django has no types
    """Status 400; with the middleware, with the text as its content."""


def idempotency_key(request: Any, user: User | None) -> str:
    """Return the key for `incr_once`: the request's Idempotency-Key, within its method, path and user.

    ``user``: the id of the sender, say ``request.user.pk``; None if there are no users, then all share their keys.
    Raises: BadRequest, status 400, for a header that is missing or malformed, or no user id; the middleware
    `CounterErrors` answers with the reason.
    """
    value = request.headers.get(HEADER)
    try:
        return scoped(header_key([] if value is None else [value]), request.method, request.path, user)
    except (BadKeyError, UsageError) as error:
        raise BadIdempotencyKey(str(error)) from None
