"""``count``: every line of the input is a name, and is counted exactly once."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer

from redis_counters.cli import options, output
from redis_counters.cli.counting import lines
from redis_counters.cli.counting.delivery import Delivery
from redis_counters.cli.counting.lines import Source
from redis_counters.cli.counting.progress import REFRESH, Progress, progress_bar
from redis_counters.cli.stop_signals import Stop
from redis_counters.errors import CounterError

_TIMEOUT = 60.0  # seconds to keep trying when Redis goes away while it counts


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

    Ctrl-C stops reading, flushes what was counted and says how far it got; a second one gives up at once.
    """
    sources = [lines.check(output.to_bytes(name)) for name in files or ["-"]]
    done = Progress()
    trouble: OSError | None = None
    patience = _TIMEOUT if timeout is None else timeout
    with Stop() as stop, Delivery(url, namespace, region, done, stop, patience) as delivery:
        delivery.check(timeout)  # a server that is away is reported before anything is read
        with progress_bar(sources) as delivery.show:
            try:
                _count(sources, output.to_bytes(prefix), done, stop, delivery)
            except OSError as error:
                trouble = error
            delivery.finish()
    if as_json:
        output.print_json(
            {
                "lines": done.lines,
                "names": int(done.names),
                "names_exact": done.names.exact,
                "bytes": done.bytes,
                "seconds": round(done.seconds, 3),
                "interrupted": bool(stop),
            }
        )
    elif sys.stderr.isatty() and not stop and trouble is None:
        output.complain(f"{done.lines:,} lines, {done.names} names, {done.seconds:.1f} s, {done.rate:,.0f} lines/s")
    if trouble is not None:
        reason = trouble.strerror or str(trouble)
        raise CounterError(f"reading stopped: {reason}; counted and flushed {done.position}") from trouble
    if stop:
        output.complain(f"interrupted; counted and flushed {done.position}")
        raise typer.Exit(stop.exit_code)


def _count(sources: Sequence[Source], prefix: bytes, done: Progress, stop: Stop, delivery: Delivery) -> None:
    """Count until the end or a signal; afterwards ``done`` has exactly the lines that were counted."""
    for source in sources:
        done.begin(source)
        for block, size in lines.blocks(source, stop, REFRESH):
            names = Counter(block)
            if not delivery.count(names, prefix):
                return
            done.names.add(names)
            done.add(len(block), size)
            delivery.refresh()
        if stop:
            return
