"""``reshard``: give counters more shards, or, with ``--shrink``, fewer."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, NamedTuple

import typer

from redis_counters.cli import options, output
from redis_counters.cli.actors import connected, driven
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
from redis_counters.protocol.wire.shard_counts import MOST_SHARDS

COLUMNS = ["counter", "shards", "what"]
AT_A_TIME = 1_000  # names between two looks at the progress

Show = Callable[[str], None]


class Told(NamedTuple):
    """What became of a counter. ``why``: what was in the way."""

    shards: int
    why: str = ""


def reshard(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Names of counters.")],
    shards: Annotated[int, typer.Argument(metavar="K", help=f"Number of shards, 1 to {MOST_SHARDS}.")],
    url: options.Url = options.DEFAULT_URL,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    region: options.Region = options.DEFAULT_REGION,
    as_json: options.Json = False,
    shrink: Annotated[
        bool, typer.Option("--shrink", metavar="", help="K is less than there are now: gather what is in the others.")
    ] = False,
    reassert_window: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, callback=options.a_number, help="As the clients have it; for --shrink."),
    ] = 60.0,
    actor_ttl: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=1, callback=options.a_number, help="The same: who is silent so long is closed."
        ),
    ] = 3600.0,
) -> None:
    """Give counters at least K shards; with --shrink, K at the most. Nobody need stop counting, and no value changes.

    Processes learn of more shards when they read the counter next. Fewer are possible where no process counts in those
    that are to go, and takes two minutes (twice --reassert-window). Exit code 1 if a counter has not K shards then.
    """
    if not 1 <= shards <= MOST_SHARDS:
        raise UsageError(f"K lies between 1 and {MOST_SHARDS}")
    settings = make_settings(namespace=namespace, region=region, reassert_window=reassert_window, actor_ttl=actor_ttl)
    wanted = list(dict.fromkeys(output.to_bytes(name) for name in names))
    with connected(url, settings) as (server, keys), _progress() as show:
        if shrink:
            found = _narrowed(server, keys, wanted, shards, upkeep_of(settings), show) if keys is not None else {}
            found = {name: found.get(name, Told(1)) for name in wanted}
        else:
            made = keys or opened_keys(server.ask([open_namespace(settings, settings.buckets)])[0], settings)
            found = _widened(server, made, wanted, shards, show)
    _tell(found, as_json=as_json)
    if any(told.why or (told.shards > shards and shrink) for told in found.values()):
        raise typer.Exit(1)


def _widened(server: Transport, keys: KeySpace, names: list[bytes], shards: int, show: Show) -> dict[bytes, Told]:
    found: dict[bytes, Told] = {}
    for some in pieces(names, AT_A_TIME):
        for name, told in driven(server, widen(keys, some, shards, mint)).items():
            found[name] = Told(0, str(told)) if isinstance(told, CounterError) else Told(told)
        show(f"{len(found):,} of {len(names):,} counters")
    return {name: found[name] for name in names}


def _narrowed(
    server: Transport, keys: KeySpace, names: list[bytes], shards: int, upkeep: Upkeep, show: Show
) -> dict[bytes, Told]:
    """Try each counter, wait together, and try those again that had to wait."""
    found: dict[bytes, Told] = {}
    while waiting := [name for name in names if name not in found]:
        longest = 0
        for done, name in enumerate(waiting):
            show(f"{done:,} of {len(waiting):,} counters")
            try:
                told = driven(server, narrow(keys, name, shards, upkeep))
            except Refused as error:
                found[name] = Told(0, str(error))
                continue
            longest = max(longest, told.wait)
            if not told.wait:
                found[name] = Told(told.shards, told.why)
        end = time.monotonic() + longest
        while (rest := end - time.monotonic()) > 0:
            show(f"{len(names) - len(found):,} counters wait for {rest:.0f} s, until no fail-over can take it back")
            time.sleep(min(rest, 0.5))
    return {name: found[name] for name in names}


def _tell(found: dict[bytes, Told], *, as_json: bool) -> None:
    if as_json:
        rows = [
            {"name": output.to_json_text(name), "shards": told.shards, "why": told.why} for name, told in found.items()
        ]
        output.print_json({"counters": rows})
        return
    output.print_table(
        "",
        COLUMNS,
        [
            [output.printable(name), str(told.shards or "?"), f"not done: {told.why}" if told.why else "done"]
            for name, told in found.items()
        ],
        numbers=["shards"],
        folded=["counter", "what"],
    )


@contextmanager
def _progress() -> Iterator[Show]:
    """How far it got, on standard error if that is a terminal; gone at the end."""
    if not sys.stderr.isatty():
        yield lambda _text: None
        return
    from rich.console import Console

    with Console(stderr=True).status("looking") as status:
        yield status.update
