"""``count``: every line of the input is a name, and is counted exactly once."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer

from redis_counters.cli import options, output
from redis_counters.cli.counting import lines as reading
from redis_counters.cli.counting.delivery import Delivery
from redis_counters.cli.counting.lines import Source
from redis_counters.cli.counting.progress import REFRESH, Tally, progress
from redis_counters.cli.stop_signals import Stop
from redis_counters.errors import CounterError

TIMEOUT = 60.0  # seconds to keep trying when Redis goes away while it counts


def count(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Files to read; '-' is standard input, which is the default."),
    ] = None,
    prefix: Annotated[str, typer.Option("--prefix", metavar="TEXT", help="Put this before every name.")] = "",
    timeout: options.Timeout = None,
    url: options.Url = options.DEFAULT_URL,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    region: options.Region = options.DEFAULT_REGION,
    as_json: options.Json = False,
) -> None:
    """Count the lines of files or of standard input: each line is the name of a counter.

    A name is the line's bytes without the newline: nothing is trimmed or decoded, an empty line is a name, a carriage
    return is a part of it, and a last line without newline counts. So the counts are those of 'sort | uniq -c', added
    to what the counters held before.

    Ctrl-C stops reading, brings what was counted to Redis and says how far it got; a second one gives up at once.
    """
    sources = reading.check([output.to_bytes(name) for name in files or ["-"]])
    tally = Tally()
    trouble: Exception | None = None
    patience = TIMEOUT if timeout is None else timeout
    with Stop() as stop, Delivery(url, namespace, region, tally, stop, patience) as delivery:
        delivery.check(timeout)  # a server that is away is told of before anything is read
        with progress(sources) as delivery.show:
            try:
                _count(sources, output.to_bytes(prefix), tally, stop, delivery)
            except OSError as error:
                trouble = error
            delivery.finish()
    if as_json:
        output.print_json(_summary(tally, stop))
    elif sys.stderr.isatty() and not stop and trouble is None:
        output.complain(f"{tally.lines:,} lines, {tally.names} names, {tally.seconds:.1f} s, {tally.rate:,.0f} lines/s")
    if trouble is not None:
        reason = getattr(trouble, "strerror", None) or str(trouble)
        raise CounterError(f"reading stopped: {reason}; counted and flushed {tally.position}") from trouble
    if stop:
        output.complain(f"interrupted; counted and flushed {tally.position}")
        raise typer.Exit(stop.exit_code)


def _count(sources: Sequence[Source], prefix: bytes, tally: Tally, stop: Stop, delivery: Delivery) -> None:
    """Count until the end or a signal; afterwards ``tally`` says exactly which lines were counted."""
    for source in sources:
        tally.begin(source)
        for lines, size in reading.blocks(source, stop, REFRESH):
            names = Counter(lines)
            if not delivery.count(names, prefix):
                return
            tally.names.add(names)
            tally.add(len(lines), size)
            delivery.refresh()
        if stop:
            return


def _summary(tally: Tally, stop: Stop) -> dict[str, object]:
    return {
        "lines": tally.lines,
        "names": int(tally.names),
        "names_exact": tally.names.exact,
        "bytes": tally.bytes,
        "seconds": round(tally.seconds, 3),
        "interrupted": bool(stop),
    }
