"""``fold``: one pass of the janitor, now."""

from __future__ import annotations

from typing import Annotated

import typer

from redis_counters.cli import options, output
from redis_counters.cli.client import connected, driven
from redis_counters.protocol.upkeep.janitor import JanitorReport, one_pass, upkeep_of
from redis_counters.protocol.wire.settings import make_settings


def fold(
    url: options.Url = options.DEFAULT_URL,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    region: options.Region = options.DEFAULT_REGION,
    as_json: options.Json = False,
    actor_ttl: Annotated[float, options.seconds("--actor-ttl", "Close actors silent for so long.", 1)] = 3600.0,
    retention: Annotated[float, options.seconds("--retention", "Forget actors folded for so long.")] = 86400.0,
    dry_run: Annotated[bool, options.flag("--dry-run", "Change nothing; say what would be done.")] = False,
) -> None:
    """Close, fold and forget actors that fell silent, in all counters, at once. No value changes.

    Clients do this in the background; any number of them may, at the same time. It goes in small steps: the server is
    never held up. Exit code 1 if something could not be folded.
    """
    settings = make_settings(namespace=namespace, region=region, actor_ttl=actor_ttl, retention=retention)
    upkeep, report = upkeep_of(settings), JanitorReport()
    with connected(url, settings) as (server, keys), output.progress("reading the registries") as show:
        if keys is not None:
            driven(server, one_pass(keys, upkeep, report, dry_run=dry_run), lambda: show(_position(report)))
        else:
            report.complete = True
    figures = {
        "reaped": len(report.reaped),
        "folded": len(report.folded),
        "cleaned": len(report.cleaned),
        "waiting": report.waiting,
        "remembered": report.kept,
        "slots": report.slots,
        "shards": report.shards,
        "refused": report.refused,
    }
    if as_json:
        output.print_json({**figures, "complete": report.complete, "dry_run": dry_run})
    else:
        done = "would be" if dry_run else "are now"
        meanings = {
            "reaped": f"actors, silent for {upkeep.actor_ttl} s, {done} closed",
            "folded": f"actors, closed for {upkeep.delay} s, {done} folded",
            "slots": f"of such actors {done} folded; shards looked at: {report.shards}",
            "cleaned": f"records, of actors folded {upkeep.retention} s ago, {done} removed",
            "waiting": f"actors are closed, for less than {upkeep.delay} s; a later pass folds them",
            "remembered": "actors are folded, and remembered for their owners",
        }
        rows = [[name, str(figures[name]), about] for name, about in meanings.items()]
        output.print_table(["what", "number", "of"], rows, numbers=["number"], folded=["of"])
    if not report.complete:
        refused = f"slots that could not be folded: {report.refused}"
        output.complain(refused if report.refused else "the walk was not complete")
        raise typer.Exit(1)


def _position(report: JanitorReport) -> str:
    where = f"{report.shards:,} shards looked at" if report.walking else f"{report.buckets} registries read"
    return f"{where}, {len(report.reaped):,} actors closed, {report.slots:,} slots folded"
