"""The header Idempotency-Key: the values that are accepted, and the key of `incr_once` that is made of one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b

from redis_counters.protocol.keyed.calls import User, user_bytes

HEADER = "Idempotency-Key"
MAX_KEY = 255  # characters

# A comma would be two headers that a proxy has joined; in quotes it is a string of RFC 9651, as the draft of the IETF
# wants it; without them it is what most clients send.
_KEY = re.compile(rf'(?P<quote>"?)(?P<key>[!#-+\--:<-\[\]-~]{{1,{MAX_KEY}}})(?P=quote)')


class BadKeyError(ValueError):
    """The header is missing or malformed; the text is a sentence for the sender of the request."""


def header_key(values: Sequence[str]) -> str:
    """Return the key out of the header's values, of which there has to be one. Raises BadKeyError."""
    if not values:
        raise BadKeyError(
            f"The header {HEADER} is missing. Send a new random value with each new action, and the same value again "
            "when you repeat a request."
        )
    if len(values) > 1 or "," in values[0]:
        raise BadKeyError(f"The header {HEADER} was sent more than once. Send one value.")
    found = _KEY.fullmatch(values[0].strip())
    if found is None:
        raise BadKeyError(
            f"The header {HEADER} must have between 1 and {MAX_KEY} printable ASCII characters, without space, comma, "
            "semicolon, backslash, and quotes other than around it."
        )
    return found["key"]


def scoped(key: str, method: str, path: str, user: User | None) -> str:
    """Return the key for `incr_once`, 32 characters: the same only for the same method, path, user and key.

    Requests whose ``user`` is None share their keys. The form is fixed, for keys are remembered across versions.
    """
    parts = [method.upper().encode(), path.encode("utf-8", "surrogatepass"), key.encode()]
    if user is not None:
        parts.append(user_bytes(user))
    text = b"".join(b"%d:%b," % (len(part), part) for part in parts)
    return blake2b(text, digest_size=16).hexdigest()
