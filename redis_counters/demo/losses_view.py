"""The view of ``demo``: a table that lives, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from redis_counters.cli import output
from redis_counters.demo.losses import LOSS, Outcome, Trial, run
from redis_counters.demo.screen import INTERRUPTED, Cell, screen
from redis_counters.demo.worker import HOT, OTHERS, PLAIN
from redis_counters.errors import Unavailable

COLUMNS = ("", "issued", "INCR", "error", "redis-counters", "error")  # of the table at the end
_COLOURS = {"frozen": "cyan", "closing": "yellow", "closed": "dim", "failed": "red"}


def run_losses(seconds: float, *, as_json: bool) -> int:
    """Run the demo from its first line to its last. Return the exit code."""
    with screen(as_json=as_json) as shown:
        shown.report(
            f"For {seconds:g} s four processes count the same by INCR and by redis-counters, on a private server.\n"
            "The links to it lose replies; one process will be replaced, one frozen for a while."
        )

        def draw(trial: Trial) -> None:
            if shown.terminal:
                shown.show(_live(trial))

        outcome, interrupted = run(seconds, draw, shown.report)
    if as_json:
        output.print_json(asdict(outcome) | {"exact": outcome.exact, "interrupted": interrupted})
    else:
        when = "When it was interrupted" if interrupted else "At the end"
        shown.conclude(
            Text(outcome.verdict, style="bold green" if outcome.exact else "bold red"),
            f"{when}, after all workers had closed",
            COLUMNS,
            _rows(outcome),
            [
                "",
                f"Both links lost 1 reply in {LOSS}: {outcome.incr_replies_lost:,} to INCR,"
                f" {outcome.our_replies_lost:,} to redis-counters, which sends many increments at once.",
                "What is not answered is sent again. INCR then counts it twice, redis-counters once.",
                "INCR here is redis-py's, with its defaults. Each increment went to both, and waited for its INCR.",
                *(Text(error, style="red") for error in outcome.errors),
                "To see it in a browser, and click: redis-counters demo --web"
                " (in a checkout: make demo DEMO_ARGS=--web)",
            ],
        )
    return INTERRUPTED if interrupted else 0 if outcome.exact else 1


def _live(trial: Trial) -> RenderableType:
    crew = trial.crew
    table = Table(
        title="Issued so far, to both sides, as last reported (reports lag behind Redis)",
        title_justify="left",
        show_footer=True,
    )
    for column, footer in (("worker", "sum"), ("pid", ""), ("state", "")):
        table.add_column(column, footer=footer)
    for column, total in (("all names", crew.total), (f"of {HOT!r}", crew.hot)):
        table.add_column(column, justify="right", footer=f"{total:,}")
    table.add_column("per second", justify="right", footer=f"{sum(w.rate for w in crew.workers):,.0f}")
    for w in crew.workers:
        state = Text(f"{w.state} {w.note}".strip(), style=_COLOURS.get(w.state, "green"))
        table.add_row(*(str(w.number), str(w.pid), state, f"{w.report.total:,}", f"{w.report.hot:,}", f"{w.rate:,.0f}"))
    values = Table("", Column(justify="right"), box=None, show_header=False)
    values.add_row(f"{HOT!r} in Redis now, by INCR", f"{int(trial.client.get(PLAIN + HOT) or 0):,}")
    try:
        ours = f"{int(trial.counters.get(HOT, max_age=0)):,}"
    except Unavailable as error:
        ours = str(error)
    values.add_row(f"{HOT!r} in Redis now, by redis-counters, which flushes every 0.1 s", ours)
    return Group(table, values)


def _rows(outcome: Outcome) -> Iterator[list[Cell]]:
    issued, both = outcome.issued, (outcome.incr, outcome.ours)
    for label, part in (
        (f"the hot name {HOT!r}", "hot"),
        (f"{len(OTHERS):,} other names", "others"),
        ("all names", "total"),
    ):
        wanted = getattr(issued, part)
        cells: list[Cell] = [label, f"{wanted:,}"]
        for result in (getattr(side, part) for side in both):
            style = "green" if result == wanted else "red"
            cells += [f"{result:,}", Text(f"{result - wanted:+,}" if result != wanted else "0", style=style)]
        yield cells
    wrong = [Text(f"{side.wrong_names:,}", style="red" if side.wrong_names else "green") for side in both]
    yield ["names that are wrong", "", "", wrong[0], "", wrong[1]]
