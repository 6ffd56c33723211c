"""What ``count`` has done so far, and the bar that shows it on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from redis_counters.cli.counting.distinct import Distinct
from redis_counters.cli.counting.lines import Source

# Often enough for an eye, seldom enough to cost nothing.
REFRESH = 0.2


@dataclass(slots=True)
class Tally:
    """Lines and bytes that were counted, in all and of the source that is being read."""

    lines: int = 0
    bytes: int = 0
    source: Source | None = None
    source_lines: int = 0
    source_bytes: int = 0
    names: Distinct = field(default_factory=Distinct)
    started: float = field(default_factory=time.monotonic)

    def begin(self, source: Source) -> None:
        self.source, self.source_lines, self.source_bytes = source, 0, 0

    def add(self, lines: int, size: int) -> None:
        self.lines += lines
        self.bytes += size
        self.source_lines += lines
        self.source_bytes += size

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def rate(self) -> float:
        """Lines per second since the start."""
        return self.lines / max(self.seconds, 1e-9)

    @property
    def position(self) -> str:
        """How far it got, in a way that lets a user go on from there."""
        where = f"{self.lines:,} lines ({self.bytes:,} bytes)"
        if self.source is None or self.source_bytes == self.bytes:
            return where + (f" of {self.source.title}" if self.source else "")
        return f"{where}, the last {self.source_lines:,} lines ({self.source_bytes:,} bytes) from {self.source.title}"


def _short(number: int) -> str:
    """For a line that has to fit on a terminal."""
    return f"{number:,}" if number < 100_000 else f"{number / 1e6:,.2f} M"


class Show(Protocol):
    """Called after every block and while waiting.

    ``flushed``: totals that Redis has acknowledged so far; a name that came again after a flush has had several.
    """

    def __call__(self, tally: Tally, flushed: int, note: str = "") -> None: ...


def show_nothing(tally: Tally, flushed: int, note: str = "") -> None:
    """Where there is no terminal."""


@contextmanager
def progress(sources: Sequence[Source]) -> Iterator[Show]:
    """A bar on standard error if it is a terminal, else nothing; gone at the end."""
    if not sys.stderr.isatty():
        yield show_nothing
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn

    sizes = [source.size for source in sources]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    how_far = [BarColumn(12), TaskProgressColumn()] if total else [SpinnerColumn()]
    figures = TextColumn("{task.description}", markup=False)
    console = Console(stderr=True)
    with Progress(*how_far, figures, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task("starting", total=total)
        last = 0.0

        def show(tally: Tally, flushed: int, note: str = "") -> None:
            nonlocal last
            now = time.monotonic()
            if now - last < REFRESH:
                return
            last = now
            about = "" if tally.names.exact else "≈ "
            text = (
                f"{_short(tally.lines)} lines  {_short(int(tally.rate))}/s  {about}{_short(int(tally.names))} names"
                f"  {_short(flushed)} totals sent  {note}"
            )
            bar.update(task, completed=tally.bytes, description=text, refresh=True)

        yield show
