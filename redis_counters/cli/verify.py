"""``verify``: whether all regions have the same of every counter, and where not, why."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from redis_counters.cli import options, output
from redis_counters.cli.counting.progress import REFRESH
from redis_counters.cli.regional.answering import Answering, SilentRegion
from redis_counters.cli.regional.comparison import MOST_GAPS, Comparison, Region, Shard, Verifier
from redis_counters.cli.regional.differences import Gap, Why
from redis_counters.cli.regional.facts import check_alike
from redis_counters.cli.regional.urls import Regions, transports, urls_by_region
from redis_counters.protocol.wire.keys import KeySpace

COLUMNS = ["counter", "shard", "region", "entry of", "has", "lacks", "why"]
_PAUSE = 0.1  # seconds between two looks at what differs
_SHOWN = 1_000  # rows of a table


def verify(
    regions: Regions = None,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    wait: Annotated[
        float,
        typer.Option(
            "--wait", metavar="SECONDS", min=0, callback=options.a_number, help="Let so long arrive what is on its way."
        ),
    ] = 5.0,
    as_json: options.Json = False,
) -> None:
    """Compare what all regions hold of every counter, and say where it differs, and why. Exit code 1 if it does.

    Nothing is changed, and counting may go on: what one region had and another lacked at the first look is looked at
    again, for as long as --wait says, and is no difference if it has arrived. A region that does not answer is not
    compared, the others are.
    """
    urls = urls_by_region(regions)
    with transports(urls) as servers:
        answering = Answering(servers)
        facts = answering.facts(namespace)
        check_alike(facts)
        keys = next((told.keys for told in facts.values() if told.keys is not None), None)
        found = Comparison()
        while keys is not None:
            try:
                found = _compared(answering.regions(facts), keys, wait)
                break
            except SilentRegion as silent:  # the others are compared anew
                answering.give_up(silent)
    facts = {name: told for name, told in facts.items() if name not in answering.silent}
    unjoined = [name for name, told in facts.items() if not told.joined]
    if as_json:
        output.print_json(_as_json(found, unjoined) | {"not_compared": answering.silent})
    else:
        for name, why in answering.silent.items():
            output.complain(f"region {name} is not compared: {output.printable(why.encode())}")
        _tell(found, list(facts), unjoined)
    if found.gaps or unjoined or any(found.unindexed.values()) or answering.silent:
        raise typer.Exit(1)


def _compared(regions: list[Region], keys: KeySpace, wait: float) -> Comparison:
    with _progress(keys.buckets) as show:
        verifier = Verifier(regions, keys, show)
        verifier.compare()
        end = time.monotonic() + wait
        while verifier.found.gaps and time.monotonic() < end:
            time.sleep(_PAUSE)
            verifier.look_again()
            show(verifier.found)
    return verifier.found


def _tell(found: Comparison, regions: list[str], unjoined: list[str]) -> None:
    rows = [_row(shard, gap) for shard, some in found.gaps.items() for gap in some]
    if rows:
        output.print_table("", COLUMNS, rows[:_SHOWN], numbers=["shard", "has", "lacks"], folded=["counter", "why"])
    left_out = len(rows) - len(rows[:_SHOWN]) + found.more
    lines = [f"... and {left_out:,} more; --json tells of up to {MOST_GAPS:,} shards"] if left_out else []
    lines += [f"{name} has not joined: 'redis-counters regions add' names it to the others" for name in unjoined]
    for name, shards in found.unindexed.items():
        lines += [
            f"{name} has {output.printable(shard.name)}, shard {shard.number}, in no change index: no exchange finds it"
            for shard in shards[:_SHOWN]
        ]
    counters = len({shard.name for shard in found.gaps})
    differ = (
        output.number_of(counters, "counter") + (" differs" if counters == 1 else " differ")
        if counters
        else "nothing differs"
    )
    lines.append(f"compared {output.number_of(found.shards, 'shard')} in {', '.join(regions)}: {differ}")
    output.print_lines(line.encode() for line in lines)


def _row(shard: Shard, gap: Gap) -> list[str]:
    why = f"{gap.why.value} ({output.printable(gap.note.encode())})" if gap.note else gap.why.value
    numbers = ["", ""] if gap.why is Why.UNREADABLE else [str(gap.has), str(gap.lacks)]
    return [output.printable(shard.name), str(shard.number), gap.region, output.printable(gap.place), *numbers, why]


def _as_json(found: Comparison, unjoined: list[str]) -> dict[str, object]:
    return {
        "shards": found.shards,
        "equal": not found.gaps,
        "differences": [
            {
                "name": output.to_json_text(shard.name),
                "shard": shard.number,
                "region": gap.region,
                "owner": gap.owner,
                "entry": output.printable(gap.place),
                "has": gap.has,
                "lacks": gap.lacks,
                "why": gap.why.name.lower(),
                "note": gap.note,
            }
            for shard, some in found.gaps.items()
            for gap in some
        ],
        "left_out": found.more,
        "not_joined": unjoined,
        "in_no_index": [
            {"name": output.to_json_text(shard.name), "shard": shard.number, "region": region}
            for region, shards in found.unindexed.items()
            for shard in shards
        ],
    }


@contextmanager
def _progress(buckets: int) -> Iterator[Callable[[Comparison], None]]:
    """How far it got, on standard error if that is a terminal; gone at the end."""
    if not sys.stderr.isatty():
        yield lambda _found: None
        return
    from rich.console import Console

    last = 0.0
    with Console(stderr=True).status("looking") as status:

        def show(found: Comparison) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= REFRESH:
                last = now
                differ = f", {len(found.gaps):,} differ" if found.gaps else ""
                status.update(f"{found.shards:,} shards compared, {found.buckets} of {buckets} buckets{differ}")

        yield show
