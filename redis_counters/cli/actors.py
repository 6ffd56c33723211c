"""``actors``: who counts, and who did; and ``fold``: one pass of the janitor, now."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Annotated, TypeVar

import typer

from redis_counters.cli import options, output
from redis_counters.cli.counting.progress import REFRESH
from redis_counters.cli.inspect import how_long
from redis_counters.drivers.redis_py.transports import transport_of
from redis_counters.drivers.transport import Asking, Transport
from redis_counters.drivers.urls import open_url
from redis_counters.protocol.upkeep.janitor import JanitorReport, one_pass, upkeep_of
from redis_counters.protocol.wire.answers import list_of
from redis_counters.protocol.wire.commands import Command
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.protocol.wire.namespace import look_up_namespace, settled_keys
from redis_counters.protocol.wire.registry import all_records
from redis_counters.protocol.wire.settings import Settings, make_settings

T = TypeVar("T")

COLUMNS = ["bucket", "actor", "writer", "state", "last change", "silent for"]


def actors(
    url: options.Url = options.DEFAULT_URL,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    region: options.Region = options.DEFAULT_REGION,
    as_json: options.Json = False,
) -> None:
    """List the actors: who counts, who was closed, and who is folded and remembered.

    An actor is one process's identity in one bucket. The last change is its last flush, or when it was closed or
    folded, by the server's clock.
    """
    with connected(url, make_settings(namespace=namespace, region=region)) as (server, keys):
        now, found = driven(server, all_records(keys.registries)) if keys is not None else (0, [])
    found.sort(key=lambda located: (located[0], located[1].seen, located[1].actor))
    if as_json:
        rows = [
            {
                "bucket": bucket,
                "actor": output.printable(record.actor),
                "writer": output.printable(record.display),
                "state": record.word,
                "seq": record.seq,
                "last_change": record.seen,
                "silent": max(0, now - record.seen),
            }
            for bucket, record in found
        ]
        output.print_json({"actors": rows})
        return
    output.print_table(
        "",
        COLUMNS,
        [
            [
                str(bucket),
                output.printable(record.actor),
                output.printable(record.display),
                record.word,
                datetime.fromtimestamp(record.seen, timezone.utc).strftime("%Y-%m-%d %H:%M:%S"),
                how_long(now - record.seen),
            ]
            for bucket, record in found
        ],
        numbers=["bucket"],
        folded=["actor", "writer"],
    )


def fold(
    url: options.Url = options.DEFAULT_URL,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    region: options.Region = options.DEFAULT_REGION,
    as_json: options.Json = False,
    actor_ttl: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=1, callback=options.a_number, help="Close who is silent so long."),
    ] = 3600.0,
    retention: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, callback=options.a_number, help="Forget who is folded so long."),
    ] = 86400.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Change nothing, only tell what would be done.")
    ] = False,
) -> None:
    """Close, fold and forget actors that fell silent, in all counters, at once. No value changes by it.

    Clients do so by themselves in the background; any number of them may, at the same time. It goes in small steps:
    the server is never held up. Exit code 1 if something could not be folded.
    """
    settings = make_settings(namespace=namespace, region=region, actor_ttl=actor_ttl, retention=retention)
    upkeep, report = upkeep_of(settings), JanitorReport()
    with connected(url, settings) as (server, keys), _progress(report) as show:
        if keys is not None:
            driven(server, one_pass(keys, upkeep, report, dry_run=dry_run), show)
        else:
            report.complete = True
    if as_json:
        output.print_json({**_figures(report), "complete": report.complete, "dry_run": dry_run})
    else:
        done = "would be" if dry_run else "are now"
        told = {
            "reaped": f"actors, silent for {upkeep.actor_ttl} s, {done} closed",
            "folded": f"actors, closed for {upkeep.delay} s, {done} folded",
            "slots": f"of such actors {done} folded; shards looked at: {report.shards}",
            "cleaned": f"records, of actors folded {upkeep.retention} s ago, {done} removed",
            "waiting": f"actors are closed, for less than {upkeep.delay} s; a later pass folds them",
            "remembered": "actors are folded, and remembered for their owners",
        }
        figures = _figures(report)
        rows = [[name, str(figures[name]), about] for name, about in told.items()]
        output.print_table("", ["what", "number", "of"], rows, numbers=["number"], folded=["of"])
    if not report.complete:
        output.complain(
            f"slots that could not be folded: {report.refused}" if report.refused else "the walk was not complete"
        )
        raise typer.Exit(1)


def _figures(report: JanitorReport) -> dict[str, int]:
    return {
        "reaped": len(report.reaped),
        "folded": len(report.folded),
        "cleaned": len(report.cleaned),
        "waiting": report.waiting,
        "remembered": report.kept,
        "slots": report.slots,
        "shards": report.shards,
        "refused": report.refused,
    }


@contextmanager
def connected(url: str, settings: Settings) -> Iterator[tuple[Transport, KeySpace | None]]:
    """The deployment, and the keys of the namespace; None where nothing was ever counted."""
    opened = open_url(url, asyncio=False)
    try:
        transport = transport_of(opened.client)
        (raw,) = transport.ask([look_up_namespace(settings)])
        values = list_of(raw)
        yield transport, None if None in values else settled_keys(values, settings)
    finally:
        opened.stop_all()


def driven(
    server: Asking, steps: Generator[list[Command], list[object], T], each: Callable[[], None] = lambda: None
) -> T:
    """Return what a generator of questions returns."""
    commands = next(steps)
    try:
        while True:
            commands = steps.send(server.ask(commands))
            each()
    except StopIteration as stop:
        found: T = stop.value
        return found


@contextmanager
def _progress(report: JanitorReport) -> Iterator[Callable[[], None]]:
    """How far it got, on standard error if that is a terminal; gone at the end."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console

    last = 0.0
    with Console(stderr=True).status("reading the registries") as status:

        def show() -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= REFRESH:
                last = now
                where = f"{report.shards:,} shards looked at" if report.walking else f"{report.buckets} registries read"
                status.update(f"{where}, {len(report.reaped):,} actors closed, {report.slots:,} slots folded")

        yield show
