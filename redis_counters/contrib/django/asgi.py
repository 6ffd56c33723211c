"""Django under ASGI: in asgi.py, ``application = get_asgi_application()`` of this module.

uvicorn and others end by the signal that stopped them, so that nothing runs at the exit. Before that they send the
application the end of its lifespan, which Django ignores.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from asgiref.sync import sync_to_async
from django.core import asgi

from redis_counters.contrib.django.client import counters

__all__ = ["delivering", "get_asgi_application"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


def get_asgi_application() -> Application:
    """Return Django's application, which flushes when the server ends its lifespan."""
    return delivering(asgi.get_asgi_application())


def delivering(application: Application) -> Application:
    """Return an ASGI application that also handles the lifespan, and flushes at its end."""

    async def with_lifespan(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await application(scope, receive, send)
            return
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await sync_to_async(counters._end)()  # not in the loop: connections that are still open are answered meanwhile
        await send({"type": "lifespan.shutdown.complete"})

    return with_lifespan
