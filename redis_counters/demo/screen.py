"""Where a demo shows what happens: a live picture on a terminal, lines in a pipe, nothing at all with --json."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from redis_counters.cli import output

if TYPE_CHECKING:
    from rich.console import RenderableType

INTERRUPTED = 130  # the exit code after Ctrl-C

Cell = str | Text


class Screen(NamedTuple):
    """``report`` prints a line; ``show`` draws the live picture again, on a terminal only."""

    terminal: bool
    report: Callable[[Cell], object]
    show: Callable[[RenderableType], object]

    def conclude(
        self, verdict: Text, title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]], notes: Iterable[Cell]
    ) -> None:
        """Print what came of it: the verdict first, then a table and notes."""
        for line in ("", verdict, "", title):  # as the table's title it would be broken at the table's width
            self.report(line)
        output.print_table(columns, rows, numbers=columns[1:], aligned=True)
        for note in notes:
            self.report(note)


@contextmanager
def screen(*, as_json: bool) -> Iterator[Screen]:
    """A screen for the time of the demo; lines that are reported afterwards are printed too."""
    if as_json or not sys.stdout.isatty():
        yield Screen(False, _ignore if as_json else lambda line: output.print_lines([str(line)]), _ignore)
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield Screen(True, console.print, lambda picture: live.update(picture, refresh=True))


def _ignore(_: object) -> None:
    """Show nothing."""
