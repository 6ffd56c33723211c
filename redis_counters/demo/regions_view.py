"""What ``demo --regions`` shows: a live picture on a terminal, lines in a pipe, and what came of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from redis_counters.cli import output
from redis_counters.demo.regions import HOT, KEPT, REGIONS, SAMPLE, Outcome, Play, Stage, play

_BARS = " ▁▂▃▄▅▆▇█"
_LINE_EVERY = 4  # looks between two lines in a pipe
LEGEND = (
    "read_skew: the highest value less the lowest. lag: for how long a region has lacked what another counted, as the"
    " exchange knows it."
)
COLUMNS = ["region", "counted there", "shows", "error"]


def run_regions(seconds: float, *, as_json: bool) -> int:
    """The demo from its first line to its last. Returns the exit code."""
    terminal = sys.stdout.isatty() and not as_json
    with ExitStack() as stack:
        tell: Callable[[str], object] = _nothing
        show: Callable[[Play], object] = _nothing
        key = stack.enter_context(keys()) if terminal else lambda: ""
        stage = stack.enter_context(Stage())
        if terminal:
            console = Console(highlight=False)
            tell = console.print
            tell(_beginning(seconds) + " Press 1, 2 or 3 to cut a region off, or to let it back; q ends it.")
            tell(LEGEND)
            live = stack.enter_context(Live(console=console, auto_refresh=False, transient=True))
            show = lambda played: live.update(picture(stage, played), refresh=True)  # noqa: E731 - it is one call
        elif not as_json:
            tell = _plain
            tell(_beginning(seconds))
            tell(LEGEND)
            show = _Lines(stage, tell)
        outcome = play(stage, seconds, tell, show, key)
    if as_json:
        output.print_json(asdict(outcome) | {"exact": outcome.exact})
    else:
        _conclude(outcome)
    return 130 if outcome.interrupted else 0 if outcome.exact else 1


def picture(stage: Stage, played: Play) -> RenderableType:
    """The regions now, and how far each was behind in the last seconds."""
    total = stage.issued[HOT]
    title = f"{HOT!r} as each region's own server has it, after {played.time:.0f} s"
    table = Table(title=title, title_justify="left", show_footer=True)
    table.add_column("region", footer="all")
    table.add_column("link", min_width=len("cut off"))
    for column, footer in (("counted", f"{total:,}"), ("shows", ""), ("behind", "")):
        table.add_column(column, justify="right", footer=footer, min_width=7)
    table.add_column(f"behind, the last {KEPT * SAMPLE:.0f} s", min_width=KEPT, no_wrap=True)
    highest = max([1, *(value for site in stage.sites.values() for value in site.behind)])
    for number, site in enumerate(stage.sites.values(), 1):
        table.add_row(
            f"{number} {site.name}",
            Text("cut off", style="bold red") if site.cut else Text("up", style="green"),
            f"{site.issued[HOT]:,}",
            Text(f"{site.value:,}", style="red" if site.cut else ""),
            f"{max(0, total - site.value):,}",
            Text(bars(list(site.behind), highest), style="red" if site.cut else "cyan"),
        )
    figures = Text(f"read_skew {stage.skew:,}   {_lag(stage)}", style="bold")
    return Group(table, figures)


def _lag(stage: Stage) -> str:
    """For how long each region has lacked something of the others, as the exchange knows it."""
    pairs = stage.exchange.stats().pairs
    told = []
    for name in stage.sites:
        lags = [pair.lag for (_, destination), pair in pairs.items() if destination == name]
        told.append(f"{name} never" if None in lags else f"{name} {max((lag or 0.0) for lag in lags):.1f} s")
    return f"lag: {', '.join(told)}"


def bars(values: Sequence[int], highest: int) -> str:
    """A bar for each value, the highest as high as the line."""
    return "".join(_BARS[-(-value * (len(_BARS) - 1) // highest)] for value in values)


class _Lines:
    """What a pipe gets instead of the picture: a line a second."""

    def __init__(self, stage: Stage, tell: Callable[[str], object]) -> None:
        self._stage, self._tell, self._looks = stage, tell, 0

    def __call__(self, played: Play) -> None:
        self._looks += 1
        if self._looks % _LINE_EVERY == 0 or played.settled:
            shown = "  ".join(f"{site.name} {site.value:,}" for site in self._stage.sites.values())
            self._tell(f"{played.time:5.1f} s  {shown}  read_skew {self._stage.skew:,}  {_lag(self._stage)}")


def _beginning(seconds: float) -> str:
    return (
        f"For {seconds:g} s three servers ({', '.join(REGIONS)}) count {HOT!r} and a hundred other names for"
        " themselves; an exchange tells each what the others have. One of them will be cut off for a while."
    )


def _conclude(outcome: Outcome) -> None:
    total = sum(outcome.issued.values())
    rows = [
        [name, f"{outcome.issued[name]:,}", f"{value:,}", f"{value - total:+,}" if value != total else "0"]
        for name, value in outcome.values.items()
    ]
    title = "When it was interrupted" if outcome.interrupted else "At the end"
    title += f", {total:,} counted of {HOT!r} in all regions"
    # As a table's title it would be broken at the table's width.
    output.print_lines(line.encode() for line in ["", outcome.verdict, "", title])
    output.print_table("", COLUMNS, rows, numbers=COLUMNS[1:], aligned=True)
    heals = ", ".join(f"{seconds:.2g} s" for seconds in outcome.seconds_to_heal) or "nothing to heal"
    note = f"The regions were up to {outcome.largest_skew:,} apart; from the end of a partition to equal: {heals}."
    output.print_lines([note.encode()])


@contextmanager
def keys() -> Iterator[Callable[[], str]]:
    """A function that returns a key that was pressed since, or nothing; the terminal is as before afterwards."""
    try:
        import select
        import termios
        import tty

        fd = sys.stdin.fileno()
        before = termios.tcgetattr(fd)
    except (ImportError, OSError, ValueError, termios.error):  # not a terminal, or none that knows single keys
        yield lambda: ""
        return
    try:
        tty.setcbreak(fd)  # Ctrl-C still interrupts
        yield lambda: os.read(fd, 1).decode("ascii", "replace") if select.select([fd], [], [], 0)[0] else ""
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _plain(line: object) -> None:
    output.print_lines([str(line).encode()])


def _nothing(_: object) -> None:
    """Where nobody looks on."""
