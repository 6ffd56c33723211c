"""Splits a stream of the Redis protocol into its values."""

from __future__ import annotations

from collections.abc import Iterator


class Frames:
    """Bytes in, whole RESP2 or RESP3 values (and inline commands) out, each as the bytes it came in."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._at = 0  # where the next header line begins
        self._owed = 1  # values that the current frame still lacks

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._buffer += data
        begin = 0
        while (line_end := self._buffer.find(b"\r\n", self._at)) >= 0:
            kind, size, end = self._buffer[self._at], 0, line_end + 2
            if kind in b"$=!*~>%|":
                size = int(self._buffer[self._at + 1 : line_end])
            if kind in b"$=!" and size >= 0:
                end += size + 2
                if len(self._buffer) < end:
                    break
            elif kind in b"*~>":
                self._owed += max(size, 0)
            elif kind in b"%|":
                self._owed += 2 * size + (kind == ord("|"))  # an attribute stands before the value it describes
            self._at = end
            self._owed -= 1
            if not self._owed:
                yield bytes(self._buffer[begin:end])
                begin, self._owed = end, 1
        del self._buffer[:begin]
        self._at -= begin


def command_of(request: bytes) -> str:
    """Return the upper-case name of the command in this request."""
    name = request.split(b"\r\n", 3)[2] if request.startswith(b"*") else (request.split() or [b""])[0]
    return name.decode("ascii", "replace").upper()
