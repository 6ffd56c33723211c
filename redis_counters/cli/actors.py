"""``actors``: which processes count in the namespace, and which did."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from redis_counters.cli import options, output
from redis_counters.cli.client import connected, driven
from redis_counters.protocol.wire.registry import all_records
from redis_counters.protocol.wire.settings import make_settings

COLUMNS = ["bucket", "actor", "writer", "state", "last change", "silent for"]


def actors(
    url: options.Url = options.DEFAULT_URL,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    region: options.Region = options.DEFAULT_REGION,
    as_json: options.Json = False,
) -> None:
    """List the actors: those that count, those that were closed, and those that are folded and remembered.

    An actor is one process's identity in one bucket. Its last change is its last flush, or when it was closed or
    folded, by the server's clock.
    """
    with connected(url, make_settings(namespace=namespace, region=region)) as (server, keys):
        now, found = driven(server, all_records(keys.registries)) if keys is not None else (0, [])
    rows: list[dict[str, Any]] = [
        {
            "bucket": bucket,
            "actor": output.printable(record.actor),
            "writer": output.printable(record.display),
            "state": record.word,
            "seq": record.seq,
            "last_change": record.seen,
            "silent": max(0, now - record.seen),
        }
        for bucket, record in sorted(found, key=lambda located: (located[0], located[1].seen, located[1].actor))
    ]
    if as_json:
        output.print_json({"actors": rows})
        return
    cells = [
        [
            *(str(row[name]) for name in COLUMNS[:4]),
            datetime.fromtimestamp(row["last_change"], timezone.utc).strftime("%Y-%m-%d %H:%M:%S"),
            output.how_long(row["silent"]),
        ]
        for row in rows
    ]
    output.print_table(COLUMNS, cells, numbers=["bucket"], folded=["actor", "writer"])
