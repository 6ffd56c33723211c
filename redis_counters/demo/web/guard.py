"""What holds for every request: by which name the server may be called, who may change something, and the headers.

The page keeps no secret, but it runs on a developer's machine beside other things. So no other site may act through a
browser that has both open: neither by a form (the origin is checked, the cookie is of this site only) nor by a name of
its own that leads to this machine (only known names and addresses are answered).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # not no-referrer: with that, browsers send forms with the origin "null"
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
_CHANGING = {"POST", "PUT", "PATCH", "DELETE"}


class Guard:
    """An ASGI application in front of another."""

    def __init__(self, app: App, host: str) -> None:
        self._app, self._host = app, host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                names = {name for name, _ in message["headers"]}
                default = [] if b"cache-control" in names else [(b"cache-control", b"no-store")]
                message["headers"] = [*message["headers"], *_HEADERS, *default]
            await send(message)

        status, sentence = self._judge(scope)
        if status:
            await _refuse(send_with_headers, status, sentence)
        else:
            await self._app(scope, receive, send_with_headers)

    def _judge(self, scope: Scope) -> tuple[int, str]:
        """Return a status and why, or 0 where the request may pass."""
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, []).append(value)
        hosts = headers.get(b"host", [])
        host = hosts[0].decode("latin-1").lower() if len(hosts) == 1 else ""
        if not self._is_known(host):
            return 400, "This server does not go by that name. Use the address that it printed."
        if scope["method"] in _CHANGING and not _from_here(headers, host):
            return 403, "Only the page itself may change something here, and this came from elsewhere."
        return 0, ""

    def _is_known(self, host: str) -> bool:
        """Tell whether a Host header is an address, localhost, or what the server was told to listen on.

        Any other name may be anybody's, and lead here all the same.
        """
        try:
            parts = urlsplit(f"//{host}")
            name, _ = parts.hostname, parts.port
        except ValueError:
            return False
        if not name or parts.username is not None or parts.path or parts.query or parts.fragment:
            return False
        if name in ("localhost", self._host.lower()):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _from_here(headers: dict[bytes, list[bytes]], host: str) -> bool:
    """Tell whether a request was made by a page of this server, as browsers say it; who says nothing is refused."""
    origins = headers.get(b"origin", [])
    if origins:
        return len(origins) == 1 and origins[0].decode("latin-1").lower() in (f"http://{host}", f"https://{host}")
    return headers.get(b"sec-fetch-site") == [b"same-origin"]


async def _refuse(send: Send, status: int, sentence: str) -> None:
    body = f"{sentence}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
