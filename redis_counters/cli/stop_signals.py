"""Ctrl-C and SIGTERM while something is at work: the first only sets a flag, the second ends the process at once.

A KeyboardInterrupt could land between two increments of a block, and it would be unknown which lines were counted.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Falsy until a signal arrives. A context manager: the handlers are in place inside of it. Main thread only.

    ``last_words``: the line that the second signal leaves on standard error.
    """

    def __init__(self, last_words: str = "aborted: what was not flushed yet is lost") -> None:
        self._last_words = last_words.encode()
        self.signal = 0
        self._wake, self._ring = os.pipe()
        os.set_blocking(self._ring, False)
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._wake)
        os.close(self._ring)

    def __bool__(self) -> bool:
        return self.signal != 0

    @property
    def exit_code(self) -> int:
        """The code by which a shell reports a process that the signal ended: 130 for Ctrl-C."""
        return 128 + self.signal

    def wait_readable(self, fd: int, timeout: float | None) -> bool:
        """Wait for something to read, a signal or the timeout; True if there is something to read."""
        if sys.platform == "win32":
            return True  # select knows only sockets there: a signal is seen after the next block
        ready, _, _ = select.select([fd, self._wake], [], [], timeout)
        return fd in ready

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.signal:
            show_cursor = b"\x1b[?25h\n" if sys.stderr.isatty() else b""
            os.write(2, show_cursor + b"redis-counters: " + self._last_words + b"\n")
            os._exit(128 + number)
        self.signal = number
        os.write(self._ring, b"!")
