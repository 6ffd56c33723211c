"""Commands on a terminal, which are typed at and looked at while they run."""

from __future__ import annotations

import os
import pty
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.waiting import PATIENCE, until

ALL = ("stdin", "stdout", "stderr")


class Terminal:
    """``process``: the command. ``seen``: what was drawn so far."""

    def __init__(self, process: subprocess.Popen[bytes], screen: int) -> None:
        self.process = process
        self.seen = bytearray()
        self._screen = screen

    def press(self, keys: bytes) -> None:
        os.write(self._screen, keys)

    def wait_for(self, text: bytes) -> None:
        """It was drawn."""
        until(lambda: text in self.seen, f"{text!r} on the terminal")

    def read(self) -> None:
        try:
            while data := os.read(self._screen, 65_536):
                self.seen.extend(data)
        except OSError:
            pass  # Linux reports the end of a terminal so


@contextmanager
def on_terminal(
    start: Callable[..., subprocess.Popen[bytes]], *arguments: Any, streams: tuple[str, ...] = ALL
) -> Iterator[Terminal]:
    """The command that is started has a terminal in place of these streams. It has ended in the end."""
    screen, inner = pty.openpty()
    terminal = Terminal(start(*arguments, **dict.fromkeys(streams, inner)), screen)
    os.close(inner)
    reader = threading.Thread(target=terminal.read)
    reader.start()
    try:
        yield terminal
    finally:
        terminal.process.kill()
        reader.join(PATIENCE)
        os.close(screen)
