"""FastAPI: `redis_counters.contrib.starlette`, as dependencies.

app = FastAPI(lifespan=lifespan(), exception_handlers=ERROR_HANDLERS)

@app.post("/posts/{post}/like")
async def like(post: int, counters: AppCounters):
    await counters.likes(f"post:{post}").like("ann")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from fastapi.responses import JSONResponse
from starlette.requests import HTTPConnection

import redis_counters.contrib.starlette as starlette
from redis_counters.asyncio import Counters
from redis_counters.contrib.idempotency import HEADER
from redis_counters.contrib.starlette import counting, handlers_with, lifespan

__all__ = ["ERROR_HANDLERS", "AppCounters", "counting", "get_counters", "idempotency_key", "lifespan"]


async def get_counters(connection: HTTPConnection) -> Counters:
    """The dependency: the counters of the application. Tests put others in ``app.dependency_overrides``."""
    return starlette.counters_of(connection)


AppCounters = Annotated[Counters, Depends(get_counters)]
"""The type of a parameter that is the application's counters."""


def _no_user() -> None:
    return None


def idempotency_key(user: Callable[..., Any] | None) -> Callable[..., str]:
    """Return a dependency: the key for `incr_once`, from the request's Idempotency-Key.

    ``user``: your dependency for the id of the sender; keys are separate for each user, method and path. None if there
    are no users, then all share their keys. A header that is missing or malformed is answered by status 400 with a
    sentence.
    """
    sender: Any = Depends(user or _no_user)
    header: Any = Header(None, alias=HEADER, description="One value per action, the same when it is repeated.")

    def key(request: Request, user_id: Any = sender, _documented: str | None = header) -> str:
        return starlette.idempotency_key(request, user_id)

    return key


ERROR_HANDLERS = handlers_with(
    lambda found: JSONResponse({"detail": found.sentence}, found.status, dict(found.headers))
)
"""For ``exception_handlers``: errors of counting become 400, 422 or 503, each ``{"detail": sentence}``."""
