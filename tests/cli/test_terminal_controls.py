"""What users and servers call things cannot steer a terminal, nor move its cursor."""

from __future__ import annotations

import re
from typing import Any

import pytest

from redis_counters import Counters
from redis_counters.cli import output
from tests.cli.commands import TIMEOUT, run, start
from tests.cli.terminals import on_terminal
from tests.servers import RealServer

NASTY = b"a\x1b]0;title\x07\x1b[2J\xc2\x9b31m\xff"
SHOWN = rb"a\x1b]0;title\x07\x1b[2J\x9b31m\xff"
OURS = re.compile(rb"\x1b\[(\?25[lh]|1A|2K|[0-9;]*m)")  # colours and the progress bar, which we draw ourselves


def on_a_terminal(server: RealServer, *arguments: str | bytes) -> bytes:
    """Return all that a command writes, both streams on one terminal."""
    with on_terminal(start, server, *arguments, streams=("stdout", "stderr")) as terminal:
        terminal.process.wait(TIMEOUT)
    return OURS.sub(b"", bytes(terminal.seen))


def harmless(told: bytes) -> bool:
    """True if nothing but line ends moves a cursor."""
    return not any(byte in told for byte in (b"\x1b", b"\x07", b"\xc2\x9b", b"\xff"))


@pytest.mark.every(3, "a command each")
@pytest.mark.parametrize(
    "command",
    ["get", "inspect", "reset", "delete", "get --json", "inspect --json", "reshard"],
)
def test_names(any_server: RealServer, command: str) -> None:
    """A name with control characters is escaped on a terminal, by every command that prints it."""
    with Counters.from_url(any_server.url) as counters:
        counters.incr(NASTY)
    more = ["1"] if command == "reshard" else []
    told = on_a_terminal(any_server, *command.split(), NASTY, *more)
    assert harmless(told), told
    assert b"title" in told


@pytest.mark.every(3, "a command each")
@pytest.mark.parametrize(
    "arguments",
    [
        ["count", b"/none/" + NASTY],
        [NASTY],
        ["get", "a", b"--" + NASTY],
        ["get", "a", "--namespace", b"{" + NASTY],
        ["get", "a", "--url", b"redis://" + NASTY],
        ["incr", "a", NASTY],
    ],
    ids=["a file", "a command", "an option", "a namespace", "a URL", "an amount"],
)
def test_complaints(any_server: RealServer, arguments: list[Any]) -> None:
    """What was typed is quoted in a complaint escaped, on a terminal and in a file."""
    assert harmless(on_a_terminal(any_server, *arguments))
    result = run(any_server, *arguments)
    assert result.returncode in (1, 2)
    assert harmless(result.stderr), result.stderr


def test_in_a_pipe_a_name_stays_as_it_is(any_server: RealServer) -> None:
    """In a pipe a name is data, and written byte for byte."""
    assert run(any_server, "get", NASTY).stdout == NASTY + b"\t0\n"


def test_each_way_to_a_terminal(monkeypatch: pytest.MonkeyPatch, capfdbinary: Any) -> None:
    """Lines and tables are escaped where they are written, whatever made them; tabs and broken lines stay."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    output.print_lines([b"x\t" + NASTY])
    output.print_table(["one"], [["two\nlines " + NASTY.decode("utf-8", "surrogateescape")]])
    told = capfdbinary.readouterr().out
    assert harmless(OURS.sub(b"", told))
    assert b"x\t" + SHOWN in told
    assert b"two " in told
    assert rb"two\n" not in told
