"""Starlette: one asyncio client per application, made at its start and closed at its end.

app = Starlette(routes=[...], lifespan=lifespan(), exception_handlers=ERROR_HANDLERS)

async def view(request):
    counters_of(request).incr("views")
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, Response

from redis_counters.asyncio import Counters
from redis_counters.contrib.http_errors import ANSWERED, Answer, answer
from redis_counters.contrib.idempotency import HEADER, BadKeyError, header_key, scoped
from redis_counters.contrib.shutdown import STATE, TIMEOUT, attached
from redis_counters.contrib.url_config import opened
from redis_counters.errors import CounterError, UsageError
from redis_counters.protocol.keyed.calls import User
from redis_counters.protocol.wire.options import Options

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["ERROR_HANDLERS", "counters_of", "counting", "idempotency_key", "lifespan"]


@asynccontextmanager
async def counting(
    app: Starlette, url: str | None = None, *, close_timeout: float = TIMEOUT, **options: Unpack[Options]
) -> AsyncIterator[dict[str, Counters]]:
    """For a lifespan of your own: inside of this the application has counters, afterwards they are closed.

    ``url``: by default that of the environment variable REDIS_COUNTERS_URL. ``options``: of `Counters`. Counts that
    are not flushed when it ends, within ``close_timeout`` seconds, are logged with their amounts.
    """
    counters = opened(Counters.from_url, url, options)
    async with attached(app.state, counters, close_timeout):
        yield {STATE: counters}


def lifespan(
    url: str | None = None, *, close_timeout: float = TIMEOUT, **options: Unpack[Options]
) -> Callable[[Starlette], AbstractAsyncContextManager[Mapping[str, Any]]]:
    """Return a lifespan for the application: `counting`, and nothing else. Nothing is looked up before the start."""

    def start(app: Starlette) -> AbstractAsyncContextManager[Mapping[str, Any]]:
        return counting(app, url, close_timeout=close_timeout, **options)

    return start


def counters_of(connection: HTTPConnection) -> Counters:
    """Return the counters of the application that a request or web socket came to, mounted ones included.

    Raises: RuntimeError if its lifespan does not run, as in a test without ``with TestClient(app)``.
    """
    found = connection.scope.get("state", {}).get(STATE) or getattr(connection.app.state, STATE, None)
    if found is None:
        raise RuntimeError(
            "this application has no counters: give it lifespan=lifespan(), and in tests use `with TestClient(app)`"
        )
    return cast(Counters, found)


def idempotency_key(request: Request, user: User | None) -> str:
    """Return the key for `incr_once`: the request's Idempotency-Key, within its method, path and user.

    ``user``: the id of the sender, by your authentication; None if there are no users, then all share their keys.
    Raises: HTTPException, status 400 with a sentence, for a header that is missing or malformed, or no user id.
    """
    try:
        return scoped(header_key(request.headers.getlist(HEADER)), request.method, request.url.path, user)
    except (BadKeyError, UsageError) as error:
        raise HTTPException(400, str(error)) from None


def handlers_with(respond: Callable[[Answer], Response]) -> dict[Any, Any]:
    """Return ``exception_handlers`` for the errors in `ANSWERED`, which answer by ``respond``."""

    async def handle(connection: HTTPConnection, error: Exception) -> Response:
        found = answer(cast(CounterError, error)) if connection.scope["type"] == "http" else None
        if found is None:
            raise error  # as if there were no handler; a web socket would wait for ever
        return respond(found)

    return dict.fromkeys(ANSWERED, handle)


ERROR_HANDLERS = handlers_with(lambda found: PlainTextResponse(found.sentence, found.status, dict(found.headers)))
"""For ``exception_handlers``: errors of counting become 400, 422 or 503, each with a sentence as plain text."""
