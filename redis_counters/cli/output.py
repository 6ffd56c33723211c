"""Standard output: a table on a terminal, plain lines in a pipe, one object for --json; and names as text."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


class NotWrittenError(Exception):
    """Standard output has failed: the result was not written, or not all of it."""


def open_closed_streams() -> None:
    """Open standard output and standard error, if the caller has closed them.

    Writing to such an output fails then, as it does for other programs; what is written to such an error is lost.
    """
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def forget_standard_output() -> None:
    """Drop what is not written yet; the interpreter would try once more at its end, and complain."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


@contextmanager
def standard_output() -> Iterator[None]:
    """For writing to it. Raises: NotWrittenError; BrokenPipeError, if the reader has gone away."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise NotWrittenError(f"cannot write to standard output: {error.strerror or error}") from error


def to_bytes(argument: str) -> bytes:
    """Return the bytes that were typed, whatever their encoding."""
    return os.fsencode(argument)


def to_json_text(name: bytes) -> str:
    """Return a name as a JSON string; a byte that is not UTF-8 becomes a lone surrogate (surrogateescape)."""
    return name.decode("utf-8", "surrogateescape")


def printable(name: bytes | str) -> str:
    """Return a name for people: what is not UTF-8 or not printable is escaped, so that it cannot steer a terminal."""
    raw = name.encode("utf-8", "surrogateescape") if isinstance(name, str) else name
    return _escaped(raw.decode("utf-8", "backslashreplace"))


def _escaped(text: str, but: str = "") -> str:
    """Return the text with escapes for what is not printable, except the characters ``but``."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in but else c.encode("unicode_escape").decode() for c in text)


def number_of(count: int, what: str) -> str:
    """Return a number and its noun: ``1 shard``, ``2 shards``."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def how_long(seconds: int) -> str:
    """Return a time in its largest whole unit; 0 for one below zero."""
    seconds = max(0, seconds)
    unit, size = next((unit for unit in _UNITS if seconds >= unit[1]), _UNITS[-1])
    return f"{seconds // size} {unit}"


def print_json(value: Mapping[str, object]) -> None:
    """Write one line to standard output."""
    with standard_output():
        sys.stdout.write(json.dumps(value) + "\n")
        sys.stdout.flush()


def print_lines(lines: Iterable[bytes | str]) -> None:
    """Write lines to standard output: names as they are, but escaped on a terminal, which they might steer."""
    raw = (line.encode() if isinstance(line, str) else line for line in lines)
    if sys.stdout.isatty():
        raw = (_escaped(line.decode("utf-8", "backslashreplace"), but="\t").encode() for line in raw)
    with standard_output():
        sys.stdout.flush()
        sys.stdout.buffer.writelines(line + b"\n" for line in raw)
        sys.stdout.buffer.flush()


def print_values(values: Sequence[tuple[bytes, int]], *, as_json: bool) -> None:
    """Print names and values: an object, a table on a terminal, or NAME<TAB>VALUE lines in a pipe."""
    if as_json:
        print_json({to_json_text(name): value for name, value in values})
    elif sys.stdout.isatty():
        rows = [(printable(name), f"{value:,}") for name, value in dict(values).items()]
        print_table(["name", "value"], rows, numbers=["value"])
    else:
        print_lines(b"%s\t%d" % pair for pair in values)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Sequence[str] = (),
    folded: Sequence[str] | None = None,
    aligned: bool = False,
) -> None:
    """Print a table on a terminal; in a pipe the same cells, separated by tabs, under a line of column names.

    ``numbers`` are aligned right. Where the terminal is narrow, cells of the ``folded`` columns (None: all) take
    several lines. A cell may be a rich Text, which has a colour. With ``aligned`` columns are filled with blanks in a
    pipe too: for people, not for programs.
    """
    if not sys.stdout.isatty():
        lines = [columns, *([str(cell) for cell in row] for row in rows)]
        print_lines(_lined_up(lines, numbers) if aligned else map("\t".join, lines))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for column in columns:
        whole = folded is not None and column not in folded
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold", no_wrap=whole)
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(_escaped(str(cell), but="\n")) for cell in row))
    with standard_output():
        Console().print(table)


def _lined_up(lines: Sequence[Sequence[str]], numbers: Sequence[str]) -> list[str]:
    """Return the lines of a table with blanks between their cells, so that the columns line up."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    sides = [str.rjust if column in numbers else str.ljust for column in lines[0]]
    return [
        "  ".join(side(cell, width) for side, cell, width in zip(sides, line, widths, strict=True)).rstrip()
        for line in lines
    ]


def complain(message: str) -> None:
    """Write one line to standard error; in one piece, as other threads may complain too.

    It may quote a name that was typed, a file's name or a server's message: none of that steers a terminal.
    """
    sys.stderr.write(f"redis-counters: {printable(message)}\n")
    sys.stderr.flush()


@contextmanager
def progress(first: str) -> Iterator[Callable[[str], object]]:
    """Show a line on standard error if that is a terminal; each new text replaces it, and it is gone at the end."""
    if not sys.stderr.isatty():
        yield lambda _text: None
        return
    from rich.console import Console

    with Console(stderr=True).status(first) as line:
        yield line.update
