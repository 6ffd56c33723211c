"""How far ``count`` got, and the bar that shows it on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from redis_counters.cli.counting.distinct import Distinct
from redis_counters.cli.counting.lines import Source

REFRESH = 0.2  # seconds: often enough for an eye, seldom enough to cost nothing


@dataclass(slots=True)
class Progress:
    """Lines and bytes that were counted, in all and of the current source."""

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
        """How far it got, so that a user can go on from there."""
        where = f"{self.lines:,} lines ({self.bytes:,} bytes)"
        if self.source is None or self.source_bytes == self.bytes:
            return where + (f" of {self.source.title}" if self.source else "")
        return f"{where}, the last {self.source_lines:,} lines ({self.source_bytes:,} bytes) from {self.source.title}"


Show = Callable[[Progress, int, str], object]
"""Called after every block and while waiting, with the number of totals that Redis has acknowledged, and a note."""


def show_nothing(_done: Progress, _flushed: int, _note: str) -> None:
    """For when there is no terminal."""


@contextmanager
def progress_bar(sources: Sequence[Source]) -> Iterator[Show]:
    """A bar on standard error if it is a terminal, else nothing; gone at the end."""
    if not sys.stderr.isatty():
        yield show_nothing
        return
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn
    from rich.progress import Progress as Bar

    sizes = [source.size for source in sources]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    how_far = [BarColumn(12), TaskProgressColumn()] if total else [SpinnerColumn()]
    figures = TextColumn("{task.description}", markup=False)
    with Bar(*how_far, figures, console=Console(stderr=True), transient=True, refresh_per_second=1 / REFRESH) as bar:
        task = bar.add_task("starting", total=total)

        def show(done: Progress, flushed: int, note: str) -> None:
            about = "" if done.names.exact else "≈ "
            text = (
                f"{_short(done.lines)} lines  {_short(int(done.rate))}/s  {about}{_short(int(done.names))} names"
                f"  {_short(flushed)} totals sent  {note}"
            )
            bar.update(task, completed=done.bytes, description=text)

        yield show


def _short(number: int) -> str:
    """Return a number that fits on a terminal's line."""
    return f"{number:,}" if number < 100_000 else f"{number / 1e6:,.2f} M"
