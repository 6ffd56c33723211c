"""The view of ``demo --regions``: a live picture on a terminal, lines in a pipe, and what came of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from redis_counters.cli import output
from redis_counters.demo.regions import HOT, KEPT, REGIONS, SAMPLE, Outcome, Play, Stage, play
from redis_counters.demo.screen import INTERRUPTED, Screen, screen

_BARS = " ▁▂▃▄▅▆▇█"
_LINE_EVERY = 4  # looks between two lines in a pipe
LEGEND = (
    "read_skew: the highest value less the lowest. lag: for how long a region has lacked what another counted, as the"
    " exchange knows it."
)
COLUMNS = ["region", "counted there", "shows", "error"]


def run_regions(seconds: float, *, as_json: bool) -> int:
    """Run the demo from its first line to its last. Return the exit code."""
    with ExitStack() as stack:
        shown = stack.enter_context(screen(as_json=as_json))
        key = stack.enter_context(keys()) if shown.terminal else lambda: ""
        stage = stack.enter_context(Stage())
        beginning = (
            f"For {seconds:g} s three servers ({', '.join(REGIONS)}) count {HOT!r} and a hundred other names for"
            " themselves; an exchange tells each what the others have. One of them will be cut off for a while."
        )
        hint = " Press 1, 2 or 3 to cut a region off, or to let it back; q ends it." if shown.terminal else ""
        shown.report(beginning + hint)
        shown.report(LEGEND)
        lines = _Lines(stage, shown)

        def draw(played: Play) -> None:
            if shown.terminal:
                shown.show(picture(stage, played))
            else:
                lines(played)

        outcome = play(stage, seconds, shown.report, draw, key)
    if as_json:
        output.print_json(asdict(outcome) | {"exact": outcome.exact})
    else:
        _conclude(shown, outcome)
    return INTERRUPTED if outcome.interrupted else 0 if outcome.exact else 1


def picture(stage: Stage, played: Play) -> RenderableType:
    """Return a table of the regions now, and how far each was behind in the last seconds."""
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
    """Return how long each region has lacked something of the others, as the exchange knows it."""
    pairs = stage.exchange.stats().pairs
    shown = []
    for name in stage.sites:
        lags = [pair.lag for (_, destination), pair in pairs.items() if destination == name]
        shown.append(f"{name} never" if None in lags else f"{name} {max((lag or 0.0) for lag in lags):.1f} s")
    return f"lag: {', '.join(shown)}"


def bars(values: Sequence[int], highest: int) -> str:
    """Return a bar for each value, the highest as high as the line."""
    return "".join(_BARS[-(-value * (len(_BARS) - 1) // highest)] for value in values)


class _Lines:
    """A line a second in a pipe, instead of the picture."""

    def __init__(self, stage: Stage, shown: Screen) -> None:
        self._stage, self._shown, self._looks = stage, shown, 0

    def __call__(self, played: Play) -> None:
        self._looks += 1
        if self._looks % _LINE_EVERY == 0 or played.settled:
            values = "  ".join(f"{site.name} {site.value:,}" for site in self._stage.sites.values())
            self._shown.report(f"{played.time:5.1f} s  {values}  read_skew {self._stage.skew:,}  {_lag(self._stage)}")


def _conclude(shown: Screen, outcome: Outcome) -> None:
    total = sum(outcome.issued.values())
    heals = ", ".join(f"{seconds:.2g} s" for seconds in outcome.seconds_to_heal) or "nothing to heal"
    when = "When it was interrupted" if outcome.interrupted else "At the end"
    shown.conclude(
        Text(outcome.verdict),
        f"{when}, {total:,} counted of {HOT!r} in all regions",
        COLUMNS,
        [
            [name, f"{outcome.issued[name]:,}", f"{value:,}", f"{value - total:+,}" if value != total else "0"]
            for name, value in outcome.values.items()
        ],
        [f"The regions were up to {outcome.largest_skew:,} apart; from the end of a partition to equal: {heals}."],
    )


@contextmanager
def keys() -> Iterator[Callable[[], str]]:
    """A function that returns a key that was pressed since, or an empty text; the terminal is restored afterwards."""
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
