"""``exchange``: sends each region what the others have counted, once or until it is ended."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from redis_counters import Durability, Event, EventKind, Exchange
from redis_counters.cli import options, output
from redis_counters.cli.regional.urls import Regions, urls_by_region
from redis_counters.cli.stop_signals import Stop
from redis_counters.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from redis_counters import ExchangeStats

COLUMNS = ["from", "to", "lag", "entries", "entries/s", "bytes/entry", "repaired", "failures", "last error"]
_NUMBERS = COLUMNS[2:8]
_REPORT = 1.0  # seconds between two lines of --json, if something happened
_SILENT = 10.0  # the same, if not
_LOOK = 0.2  # seconds between two looks at the figures


def exchange(
    regions: Regions = None,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    once: Annotated[
        bool, options.flag("--once", "End when every region has what the others had at the start.")
    ] = False,
    interval: Annotated[float, options.seconds("--interval", "Between two looks at what changed.", 0.01, 3600)] = 0.2,
    link: Annotated[
        list[str] | None,
        typer.Option("--link", metavar="NAME:NAME", help="These two ask each other; without any, all ask all."),
    ] = None,
    replicas: Annotated[
        int, typer.Option("--replicas", metavar="N", min=0, help="Only what N replicas have leaves a region.")
    ] = 0,
    aof: Annotated[bool, options.flag("--aof", "Only what the append-only file has leaves a region.")] = False,
    as_json: Annotated[
        bool, options.flag("--json", "Print a line of JSON whenever something happened; with --once only at the end.")
    ] = False,
) -> None:
    """Bring the counters of several regions, each a Redis of its own, to the same values, until Ctrl-C or SIGTERM.

    Any number may run at once, anywhere, and be killed at any point. A region that is down delays nothing between the
    others. A region's name is recorded in its Redis, and the members in all of them.

    A terminal shows how far each region is behind the others; in a pipe only failures are reported, and with --json
    a line of figures whenever something happened.
    """
    urls = urls_by_region(regions)
    durability = Durability(replicas=replicas, aof=aof) if replicas or aof else None
    settings: dict[str, Any] = {"namespace": namespace, "interval": interval, "links": links_of(link, urls)}
    shown = sys.stderr.isatty() or once  # the table shows failures, or they are raised at the end
    reported = {EventKind.REGION_BEHIND} if shown else {*EventKind}

    def observe(event: Event) -> None:
        if event.kind in reported:
            output.complain(str(event))

    failures: list[BaseException] = []
    with (
        Stop("aborted; another exchange goes on where this one was") as stop,
        Exchange(urls, durability=durability, observer=observe, **settings) as running,
        _progress(running),
    ):
        found = _run_once(running, stop, failures) if once else _run(running, stop, as_json=as_json)
    if once and not stop:
        if as_json:
            output.print_json(as_line(found))
        else:
            pairs, columns = rows(found), COLUMNS
            if sys.stdout.isatty() and not any(row[-1] for row in pairs):
                columns = COLUMNS[:-1]  # without errors their column would take room from the others
            cells = [row[: len(columns)] for row in pairs]
            output.print_table(columns, cells, numbers=_NUMBERS, folded=COLUMNS[-1:])
    if failures and not stop:
        raise failures[0]
    if once and stop:
        output.complain("interrupted; another exchange goes on where this one was")
        raise typer.Exit(stop.exit_code)


def links_of(given: Sequence[str] | None, urls: Mapping[str, str]) -> list[tuple[str, str]] | None:
    """Return the directed links; None if all ask all. Raises UsageError."""
    if not given:
        return None
    links: dict[tuple[str, str], None] = {}
    for text in given:
        pair = text.split(":")
        if len(pair) != 2 or pair[0] == pair[1] or not urls.keys() >= set(pair):
            raise UsageError(f"--link: two of {', '.join(urls)}, as in {':'.join(list(urls)[:2])}; not {text[:130]!r}")
        one, other = pair
        links |= {(one, other): None, (other, one): None}
    if alone := sorted(urls.keys() - {name for pair in links for name in pair}):
        raise UsageError(f"--link: no link leads to {', '.join(alone)}")
    return list(links)


def rows(stats: ExchangeStats) -> list[list[str]]:
    """Return a row of a table for each pair of regions."""
    return [
        [
            *pair,
            "never" if figures.lag is None else f"{figures.lag:.1f} s",
            f"{figures.entries:,}",
            f"{figures.entries_per_second:,.0f}",
            "" if figures.bytes_per_entry is None else f"{figures.bytes_per_entry:,.0f}",
            f"{figures.repaired:,}",
            f"{figures.failures:,}",
            output.printable(figures.last_error or ""),
        ]
        for pair, figures in stats.pairs.items()
    ]


def as_line(stats: ExchangeStats) -> dict[str, object]:
    """Return the figures as JSON has them."""
    pairs = [{"from": pair[0], "to": pair[1], **asdict(figures)} for pair, figures in stats.pairs.items()]
    return {"time": round(time.time(), 3), "lag": stats.lag, "pairs": pairs}


def _run_once(running: Exchange, stop: Stop, failures: list[BaseException]) -> ExchangeStats:
    """Run in a thread, so that a signal ends it at once. An error of it is appended to ``failures``."""

    def work() -> None:
        try:
            running.run_once()
        except BaseException as error:
            failures.append(error)

    worker = threading.Thread(target=work, name="redis-counters-exchange-once", daemon=True)
    worker.start()
    while worker.is_alive() and not stop:
        worker.join(_LOOK)
    return running.stats()


def _run(running: Exchange, stop: Stop, *, as_json: bool) -> ExchangeStats:
    """Run until a signal."""
    running.start()
    reported: tuple[int, ...] = ()
    last = 0.0
    while not stop:
        time.sleep(_LOOK)
        found = running.stats()
        now, happened = time.monotonic(), _happened(found)
        if as_json and now - last >= (_REPORT if happened != reported else _SILENT):
            last, reported = now, happened
            output.print_json(as_line(found))
    return running.stats()


def _happened(stats: ExchangeStats) -> tuple[int, ...]:
    return tuple(n for pair in stats.pairs.values() for n in (pair.entries, pair.repaired, pair.failures, pair.refused))


def _progress(running: Exchange) -> AbstractContextManager[object]:
    """The figures on standard error, if that is a terminal; gone at the end."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    return Live(get_renderable=lambda: _table(running.stats()), console=console, refresh_per_second=4, transient=True)


def _table(stats: ExchangeStats) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"{stats.entries:,} entries exchanged; Ctrl-C ends it", title_justify="left")
    *columns, _ = COLUMNS
    for column in columns:
        table.add_column(column, justify="right" if column in _NUMBERS else "left", overflow="fold")
    troubles = []
    for row, figures in zip(rows(stats), stats.pairs.values(), strict=True):
        *cells, error = row
        table.add_row(*map(Text, cells), style="red" if error else "yellow" if figures.lag is None else "")
        if error:
            troubles.append(Text(f"from {row[0]} to {row[1]}: {error}", style="red"))
    return Group(table, *troubles)
