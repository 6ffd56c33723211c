"""Rules for every request: the names by which the server may be called, the origin of changes, and the headers.

The page keeps no secret, but it runs on a developer's machine beside other things. So no other site may act through a
browser that has both open: neither by a form (the origin is checked, the cookie is of this site only) nor by a name of
its own that leads to this machine (only known names and addresses are answered).
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
_CHANGING = {"POST", "PUT", "PATCH", "DELETE"}


class Guard:
    """An ASGI application in front of another."""

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app, self._host = app, host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        answer = self._refusal(scope["method"], Headers(scope=scope)) or self._app
        await answer(scope, receive, send_with_headers)

    def _refusal(self, method: str, headers: Headers) -> PlainTextResponse | None:
        hosts = headers.getlist("host")
        host = hosts[0].lower() if len(hosts) == 1 else ""
        if not self._is_known(host):
            sentence = "This server does not go by that name. Use the address that it printed."
            return PlainTextResponse(f"{sentence}\n", 400)
        if method in _CHANGING and not _from_here(headers, host):
            sentence = "Only the page itself may change something here, and this came from elsewhere."
            return PlainTextResponse(f"{sentence}\n", 403)
        return None

    def _is_known(self, host: str) -> bool:
        """Return whether a Host header is an address, localhost, or the name that the server listens on.

        Any other name may belong to another site, and lead here all the same.
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


def _from_here(headers: Headers, host: str) -> bool:
    """Return whether a page of this server made the request, as browsers say it; one that does not say is refused."""
    if origins := headers.getlist("origin"):
        return [origin.lower() for origin in origins] in ([f"http://{host}"], [f"https://{host}"])
    return headers.getlist("sec-fetch-site") == ["same-origin"]
