"""Litestar: a plugin, one asyncio client per application, made at its start and closed at its end.

app = Litestar([like], plugins=[CountersPlugin()])

@post("/posts/{post:int}/like")
async def like(post: int, counters: Counters) -> None:
    await counters.likes(f"post:{post}").like("ann")
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from litestar import Litestar, MediaType, Request, Response
from litestar.config.app import AppConfig
from litestar.datastructures import State
from litestar.di import NamedDependency, Provide
from litestar.exceptions import HTTPException
from litestar.plugins import InitPlugin

from redis_counters.asyncio import Counters
from redis_counters.contrib.http_errors import ANSWERED, answer
from redis_counters.contrib.idempotency import HEADER, BadKeyError, header_key, scoped
from redis_counters.contrib.shutdown import STATE, TIMEOUT, attached
from redis_counters.contrib.url_config import opened
from redis_counters.errors import CounterError, UsageError
from redis_counters.protocol.keyed.calls import User
from redis_counters.protocol.wire.options import Options

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["AppCounters", "CountersPlugin", "idempotency_key"]

AppCounters = NamedDependency[Counters]
"""The type of a parameter ``counters`` that is the application's counters."""


class CountersPlugin(InitPlugin):
    """Handlers get the application's counters by a parameter ``counters: AppCounters``.

    ``url``: by default that of the environment variable REDIS_COUNTERS_URL. ``options``: of `Counters`. Counts that
    are not flushed when the application ends, within ``close_timeout`` seconds, are logged with their amounts. Errors
    of counting are answered by 400, 422 or 503, each with a sentence, where the application has no handler for them.
    """

    def __init__(self, url: str | None = None, *, close_timeout: float = TIMEOUT, **options: Unpack[Options]) -> None:
        self._url = url
        self._close_timeout = close_timeout
        self._options = options

    def on_app_init(self, app_config: AppConfig) -> AppConfig:
        app_config.lifespan.append(self._lifespan)
        app_config.dependencies["counters"] = Provide(_counters, sync_to_thread=False)
        handlers: dict[Any, Any] = dict.fromkeys(ANSWERED, _respond)
        app_config.exception_handlers = {**handlers, **app_config.exception_handlers}
        return app_config

    @asynccontextmanager
    async def _lifespan(self, app: Litestar) -> AsyncIterator[None]:
        counters = opened(Counters.from_url, self._url, self._options)
        async with attached(app.state, counters, self._close_timeout):
            yield


def _counters(state: State) -> Counters:
    return cast(Counters, getattr(state, STATE))


def idempotency_key(request: Request[Any, Any, Any], user: User | None) -> str:
    """Return the key for `incr_once`: the request's Idempotency-Key, within its method, path and user.

    ``user``: the id of the sender, by your authentication; None if there are no users, then all share their keys.
    Raises: HTTPException, status 400 with a sentence, for a header that is missing or malformed, or no user id.
    """
    try:
        return scoped(header_key(request.headers.getall(HEADER, [])), request.method, request.url.path, user)
    except (BadKeyError, UsageError) as error:
        raise HTTPException(str(error), status_code=400) from None


def _respond(_request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    found = answer(cast(CounterError, error))
    if found is None:
        raise error  # as if there were no handler
    content = {"status_code": found.status, "detail": found.sentence}
    return Response(content, status_code=found.status, headers=dict(found.headers), media_type=MediaType.JSON)
