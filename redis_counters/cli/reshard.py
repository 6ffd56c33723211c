"""``reshard``: give counters more shards, or, with ``--shrink``, fewer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, NamedTuple

import typer

from redis_counters.cli import options, output
from redis_counters.cli.client import connected, driven
from redis_counters.drivers.identity import mint
from redis_counters.drivers.transport import Transport
from redis_counters.errors import CounterError, Refused, UsageError
from redis_counters.protocol.upkeep.folding import Upkeep
from redis_counters.protocol.upkeep.janitor import upkeep_of
from redis_counters.protocol.upkeep.reshard import narrow, widen
from redis_counters.protocol.wire.commands import pieces
from redis_counters.protocol.wire.keys import KeySpace
from redis_counters.protocol.wire.namespace import open_namespace, opened_keys
from redis_counters.protocol.wire.settings import make_settings
from redis_counters.protocol.wire.shard_counts import MAX_SHARDS

COLUMNS = ["counter", "shards", "what"]
_AT_A_TIME = 1_000  # names between two looks at the progress

Show = Callable[[str], object]


class Result(NamedTuple):
    """The counter's number of shards at the end, 0: unknown. ``why``: the obstacle, empty if it is done."""

    shards: int
    why: str = ""


def reshard(
    names: options.Names,
    shards: Annotated[int, typer.Argument(metavar="K", help=f"Number of shards, 1 to {MAX_SHARDS}.")],
    url: options.Url = options.DEFAULT_URL,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    region: options.Region = options.DEFAULT_REGION,
    as_json: options.Json = False,
    shrink: Annotated[bool, options.flag("--shrink", "K is less than now: move what the others hold.")] = False,
    reassert_window: Annotated[
        float, options.seconds("--reassert-window", "As the clients have it; for --shrink.")
    ] = 60.0,
    actor_ttl: Annotated[
        float, options.seconds("--actor-ttl", "The same: actors that are silent for so long are closed.", 1)
    ] = 3600.0,
) -> None:
    """Give counters at least K shards; with --shrink, K at most. Counting need not stop, and no value changes.

    Processes learn of more shards when they read the counter next. Fewer are possible where no process counts in those
    that are to go, and takes two minutes (twice --reassert-window). Exit code 1 if some counter does not have K shards
    at the end.
    """
    if not 1 <= shards <= MAX_SHARDS:
        raise UsageError(f"K lies between 1 and {MAX_SHARDS}")
    settings = make_settings(namespace=namespace, region=region, reassert_window=reassert_window, actor_ttl=actor_ttl)
    wanted = list(dict.fromkeys(map(output.to_bytes, names)))
    with connected(url, settings) as (server, keys), output.progress("looking") as show:
        if shrink:
            found = _narrowed(server, keys, wanted, shards, upkeep_of(settings), show) if keys is not None else {}
        else:
            made = keys or opened_keys(server.ask([open_namespace(settings, settings.buckets)])[0], settings)
            found = _widened(server, made, wanted, shards, show)
    results = {name: found.get(name, Result(1)) for name in wanted}
    if as_json:
        rows = [{"name": output.to_json_text(name), **result._asdict()} for name, result in results.items()]
        output.print_json({"counters": rows})
    else:
        cells = [
            [output.printable(name), str(result.shards or "?"), f"not done: {result.why}" if result.why else "done"]
            for name, result in results.items()
        ]
        output.print_table(COLUMNS, cells, numbers=["shards"], folded=["counter", "what"])
    if any(result.why or (result.shards > shards and shrink) for result in results.values()):
        raise typer.Exit(1)


def _widened(server: Transport, keys: KeySpace, names: list[bytes], shards: int, show: Show) -> dict[bytes, Result]:
    found: dict[bytes, Result] = {}
    for some in pieces(names, _AT_A_TIME):
        for name, result in driven(server, widen(keys, some, shards, mint)).items():
            found[name] = Result(0, str(result)) if isinstance(result, CounterError) else Result(result)
        show(f"{len(found):,} of {len(names):,} counters")
    return found


def _narrowed(
    server: Transport, keys: KeySpace, names: list[bytes], shards: int, upkeep: Upkeep, show: Show
) -> dict[bytes, Result]:
    """Try each counter; wait once for all that have to wait, and try these again."""
    found: dict[bytes, Result] = {}
    while waiting := [name for name in names if name not in found]:
        longest = 0
        for done, name in enumerate(waiting):
            show(f"{done:,} of {len(waiting):,} counters")
            try:
                result = driven(server, narrow(keys, name, shards, upkeep))
            except Refused as error:
                found[name] = Result(0, str(error))
                continue
            longest = max(longest, result.wait)
            if not result.wait:
                found[name] = Result(result.shards, result.why)
        end = time.monotonic() + longest
        while (rest := end - time.monotonic()) > 0:
            show(f"{len(names) - len(found):,} counters wait for {rest:.0f} s, until no fail-over can take it back")
            time.sleep(min(rest, 0.5))
    return found
