"""The settings of a web server of the demo."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """``counting`` is the URL of the link that may lose replies, ``aside`` that of the server behind it."""

    counting: str
    aside: str
    secret: str  # that cookies are signed with
    host: str  # that the server listens on
    socket: int = -1  # the descriptor of the listening socket, if it was inherited

    def to_line(self) -> bytes:
        """Return it as a line, for a pipe: other users may read a command line and the environment."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Settings:
        """Return the settings of a line of `to_line`."""
        return cls(**json.loads(line))
