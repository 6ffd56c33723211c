"""``count`` on a terminal: a bar while it runs, one line at its end, nothing on standard output."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.commands import COMMAND, TIMEOUT, environment, start, values
from tests.servers import RealServer

pty = pytest.importorskip("pty", reason="pseudo-terminals of Unix")


class OnTerminal:
    """A command whose standard error is a terminal; ``seen`` is what was drawn there so far."""

    def __init__(self, server: RealServer, *arguments: str) -> None:
        self.screen, inner = pty.openpty()
        self.seen = b""
        variables = environment(server, TERM="xterm", COLUMNS="120", LINES="24")
        self.process = start(server, *arguments, stderr=inner, env=variables)
        os.close(inner)

    def read_until(self, wanted: bytes) -> None:
        """Return when the text was drawn."""
        os.set_blocking(self.screen, False)
        deadline = time.monotonic() + TIMEOUT
        while wanted not in self.seen:
            assert time.monotonic() < deadline, f"never drawn: {wanted!r} in {self.seen!r}"
            self._read_some()

    def finish(self) -> bytes:
        """Close the input, read to the end, and return what was on standard output."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.close()
        os.set_blocking(self.screen, False)
        deadline = time.monotonic() + TIMEOUT
        while self._read_some():
            assert time.monotonic() < deadline, "does not end"
        os.close(self.screen)
        out = stdout.read()
        stdout.close()
        self.process.wait(TIMEOUT)
        return out

    def _read_some(self) -> bool:
        """Read what is there; False at the end."""
        try:
            read = os.read(self.screen, 65536)
        except BlockingIOError:
            time.sleep(0.02)
            return True
        except OSError:  # how Linux tells the end of a terminal
            return False
        self.seen += read
        return bool(read)


def test_bar_of_a_pipe(any_server: RealServer) -> None:
    """Lines, rate, distinct names and the totals that were sent move while the input is still open."""
    command = OnTerminal(any_server, "count")
    assert command.process.stdin is not None
    command.process.stdin.write(b"a\nb\na\n")
    command.process.stdin.flush()
    command.read_until(b"3 lines")
    command.read_until(b"2 names")
    command.read_until(b"2 totals sent")
    assert b"/s" in command.seen
    assert command.finish() == b""
    assert command.process.returncode == 0
    assert re.search(rb"redis-counters: 3 lines, 2 names, [\d.]+ s, [\d,]+ lines/s\r\n$", command.seen)
    assert values(any_server, [b"a", b"b"]) == {b"a": 2, b"b": 1}


def test_bar_of_files(any_server: RealServer, tmp_path: Path) -> None:
    """The sizes of files are known: the bar shows a percentage."""
    path = tmp_path / "lines"
    path.write_bytes(b"[bold]\n" * 400_000)
    command = OnTerminal(any_server, "count", str(path))
    assert command.finish() == b""
    assert re.search(rb"\d+%", command.seen)
    assert b"400,000 lines, 1 names" in command.seen
    assert values(any_server, [b"[bold]"]) == {b"[bold]": 400_000}


def test_interrupted_on_a_terminal(any_server: RealServer) -> None:
    """After Ctrl-C the cursor is back, and the last line says how far it got."""
    command = OnTerminal(any_server, "count")
    assert command.process.stdin is not None
    command.process.stdin.write(b"a\n")
    command.process.stdin.flush()
    command.read_until(b"1 lines")
    command.process.send_signal(signal.SIGINT)
    command.read_until(b"interrupted; counted and flushed 1 lines (2 bytes)")
    command.finish()
    assert command.process.returncode == 130
    assert command.seen.rfind(b"\x1b[?25h") > command.seen.rfind(b"\x1b[?25l")


def test_no_bar_with_standard_error_in_a_pipe(any_server: RealServer) -> None:
    """Nothing is drawn without a terminal, whatever standard input is."""
    outer, inner = pty.openpty()
    command = subprocess.run(
        [*COMMAND, "count", "/dev/null"], stdin=inner, capture_output=True, timeout=TIMEOUT, env=environment(any_server)
    )
    os.close(outer)
    os.close(inner)
    assert (command.returncode, command.stdout, command.stderr) == (0, b"", b"")
