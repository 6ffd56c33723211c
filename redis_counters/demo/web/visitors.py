"""The id of a browser: it cannot be guessed, and its cookie cannot be forged."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

COOKIE = "redis_counters_demo"
_SHAPE = re.compile(r"([A-Za-z0-9_-]{22})\.([0-9a-f]{64})")


class Visitors:
    """Makes cookies and checks them. Every process of one demo has the same secret, every demo another."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def new(self) -> str:
        """Return the cookie of a browser that was never seen."""
        name = secrets.token_urlsafe(16)
        return f"{name}.{self._sign(name)}"

    def user(self, cookie: str | None) -> str | None:
        """Return the user of this cookie, None if it was not made here."""
        found = _SHAPE.fullmatch(cookie or "")
        if found is None or not hmac.compare_digest(found[2], self._sign(found[1])):
            return None
        return f"browser:{found[1]}"

    def _sign(self, name: str) -> str:
        return hmac.new(self._secret, name.encode(), hashlib.sha256).hexdigest()
