"""Standard output: a table on a terminal, plain lines in a pipe, one object for --json; and names as text."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager


class NotWrittenError(Exception):
    """What was to be printed is not on standard output, or not all of it."""


def open_closed_streams() -> None:
    """There are a standard output and a standard error, also if the caller has closed them.

    What is written to such an output fails then, as it does for other programs; what is said on such an error is lost.
    """
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def forget_standard_output() -> None:
    """What is not written yet goes nowhere; else the interpreter would try once more at its end, and complain."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


@contextmanager
def standard_output() -> Iterator[None]:
    """For writing there. Raises: NotWrittenError; BrokenPipeError, if the reader has gone away."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise NotWrittenError(f"cannot write to standard output: {error.strerror or error}") from error


def to_bytes(argument: str) -> bytes:
    """The bytes that were typed, whatever their encoding."""
    return os.fsencode(argument)


def to_json_text(name: bytes) -> str:
    """The name as a JSON string; a byte that is not UTF-8 becomes a lone surrogate, as by Python's surrogateescape."""
    return name.decode("utf-8", "surrogateescape")


def printable(name: bytes) -> str:
    """The name for a human: what is not UTF-8 or not printable is escaped, so that it cannot steer a terminal."""
    return _escaped(name.decode("utf-8", "backslashreplace"))


def _escaped(text: str, but: str = "") -> str:
    """The text, and what is not printable is escaped, ``but`` for these."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in but else c.encode("unicode_escape").decode() for c in text)


def number_of(count: int, what: str) -> str:
    """So many of them, in words."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def print_json(value: Mapping[str, object]) -> None:
    """One line on standard output."""
    with standard_output():
        sys.stdout.write(json.dumps(value) + "\n")
        sys.stdout.flush()


def print_lines(lines: Iterable[bytes]) -> None:
    """Lines of raw bytes on standard output: a name is written as it is, but on a terminal, which it might steer."""
    if sys.stdout.isatty():
        lines = (_escaped(line.decode("utf-8", "backslashreplace"), but="\t").encode() for line in lines)
    with standard_output():
        sys.stdout.flush()
        sys.stdout.buffer.writelines(line + b"\n" for line in lines)
        sys.stdout.buffer.flush()


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Sequence[str] = (),
    folded: Sequence[str] | None = None,
    aligned: bool = False,
) -> None:
    """A table on a terminal; in a pipe the same cells, separated by tabs, under a line of column names.

    ``numbers`` stand right; only ``folded`` columns, without it all, take several lines where the terminal is narrow.
    With ``aligned`` columns line up in a pipe too, by blanks: for what people read there, not programs.
    """
    if not sys.stdout.isatty():
        lines = _lined_up(columns, list(rows), numbers) if aligned else ["\t".join(row) for row in [columns, *rows]]
        print_lines(line.encode() for line in lines)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left")
    for column in columns:
        whole = folded is not None and column not in folded
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold", no_wrap=whole)
    for row in rows:
        table.add_row(*(Text(_escaped(cell, but="\n")) for cell in row))
    with standard_output():
        Console().print(table)


def _lined_up(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str]) -> list[str]:
    """The lines of a table whose columns begin, or for ``numbers`` end, below each other."""
    lines = [columns, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    sides = [str.rjust if column in numbers else str.ljust for column in columns]
    return [
        "  ".join(side(cell, width) for side, cell, width in zip(sides, line, widths, strict=True)).rstrip()
        for line in lines
    ]


def complain(message: str) -> None:
    """One line on standard error; in one piece, as other threads may complain too.

    It may quote what was typed, what a file is called or what a server said: none of that steers a terminal.
    """
    told = printable(message.encode("utf-8", "surrogateescape"))
    sys.stderr.write(f"redis-counters: {told}\n")
    sys.stderr.flush()
