"""``verify``: do all regions have the same of every counter, and if not, why?"""

from __future__ import annotations

import time
from typing import Annotated

import typer

from redis_counters.cli import options, output
from redis_counters.cli.regional.answering import Answering, SilentRegion
from redis_counters.cli.regional.comparison import MAX_GAPS, Comparison, Region, Shard, Verifier
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
    wait: Annotated[float, options.seconds("--wait", "How long changes in flight may take to arrive.")] = 5.0,
    as_json: options.Json = False,
) -> None:
    """Compare what all regions hold of every counter, and say where it differs, and why. Exit code 1 if it does.

    Nothing is changed, and counting may go on: a difference is looked at again, for as long as --wait says, and does
    not count if it has gone. A region that does not answer is not compared, the others are.
    """
    urls = urls_by_region(regions)
    with transports(urls) as servers:
        answering = Answering(servers)
        facts = answering.facts(namespace)
        check_alike(facts)
        keys = next((each.keys for each in facts.values() if each.keys is not None), None)
        found = Comparison()
        while keys is not None:
            try:
                found = _compared(answering.regions(facts), keys, wait)
                break
            except SilentRegion as silent:  # the others are compared anew
                answering.give_up(silent)
    facts = {name: each for name, each in facts.items() if name not in answering.silent}
    unjoined = [name for name, each in facts.items() if not each.joined]
    if as_json:
        output.print_json(_as_json(found, unjoined) | {"not_compared": answering.silent})
    else:
        for name, why in answering.silent.items():
            output.complain(f"region {name} is not compared: {why}")
        _print(found, list(facts), unjoined)
    if found.gaps or unjoined or any(found.unindexed.values()) or answering.silent:
        raise typer.Exit(1)


def _compared(regions: list[Region], keys: KeySpace, wait: float) -> Comparison:
    with output.progress("looking") as line:

        def show(found: Comparison) -> None:
            differ = f", {len(found.gaps):,} differ" if found.gaps else ""
            line(f"{found.shards:,} shards compared, {found.buckets} of {keys.buckets} buckets{differ}")

        verifier = Verifier(regions, keys, show)
        verifier.compare()
        end = time.monotonic() + wait
        while verifier.found.gaps and time.monotonic() < end:
            time.sleep(_PAUSE)
            verifier.look_again()
            show(verifier.found)
    return verifier.found


def _print(found: Comparison, regions: list[str], unjoined: list[str]) -> None:
    rows = [_row(shard, gap) for shard, some in found.gaps.items() for gap in some]
    if rows:
        output.print_table(COLUMNS, rows[:_SHOWN], numbers=["shard", "has", "lacks"], folded=["counter", "why"])
    left_out = len(rows) - len(rows[:_SHOWN]) + found.more
    lines = [f"... and {left_out:,} more; --json prints up to {MAX_GAPS:,} shards"] if left_out else []
    lines += [f"{name} has not joined: 'redis-counters regions add' names it to the others" for name in unjoined]
    for name, shards in found.unindexed.items():
        lines += [
            f"{name} has {output.printable(shard.name)}, shard {shard.number}, in no change index: no exchange finds it"
            for shard in shards[:_SHOWN]
        ]
    counters = len({shard.name for shard in found.gaps})
    differ = f"{output.number_of(counters, 'counter')} differ{'s' if counters == 1 else ''}"
    summary = f"compared {output.number_of(found.shards, 'shard')} in {', '.join(regions)}"
    output.print_lines([*lines, f"{summary}: {differ if counters else 'nothing differs'}"])


def _row(shard: Shard, gap: Gap) -> list[str]:
    why = f"{gap.why.value} ({output.printable(gap.note)})" if gap.note else gap.why.value
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
