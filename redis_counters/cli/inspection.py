"""``inspect``: what Redis holds of one counter, shard by shard."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from redis_counters.cli import options, output
from redis_counters.cli.session import session
from redis_counters.crdt.slotmap import Half

if TYPE_CHECKING:
    from redis_counters.protocol.inspection import Inspection, ShardView

COLUMNS = ["shard", "bucket", "dot", "entry", "sign", "total", "floor", "counts", "state", "writer", "last seen"]
NUMBERS = ["shard", "bucket", "total", "floor", "counts"]


def inspect(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the counter.")],
    url: options.Url = options.DEFAULT_URL,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    as_json: options.Json = False,
) -> None:
    """Show what Redis holds of a counter: its shards, and in each the slots of the actors, floors and base.

    The value is the sum of 'counts', which is total - floor: what a floor covers was deleted. Entries of sign '-' come
    from decrements. 'base' holds what actors that ended had counted; 'last seen' is the server's clock, epoch seconds.
    """
    with session(url, namespace) as counters:
        found = counters.inspect(output.to_bytes(name))
    if as_json:
        output.print_json(_as_json(name, found))
        return
    shards = "1 shard" if found.shards == 1 else f"{found.shards} shards"
    output.print_lines([f"{output.printable(os.fsencode(name))}: {found.value} in {shards}".encode()])
    rows = [row for part in found.parts for row in _rows(part, found)]
    output.print_table("", COLUMNS, rows, numbers=NUMBERS)


def _halves(part: ShardView) -> list[tuple[str, Half]]:
    return [("+", part.map.plus), ("-", part.map.minus)]


def _rows(part: ShardView, found: Inspection) -> Iterator[list[str]]:
    """The entries of a shard, one row each; a shard without any has a row to say that it is there."""
    place = [str(part.shard), str(part.bucket), _text(part.map.dot or b"")]
    empty = True
    for sign, half in _halves(part):
        if half.base:
            empty = False
            yield [*place, "base", sign, str(half.base), "0", f"{sign}{half.base}", "", "", ""]
        for actor, total in half.slots.items():
            empty = False
            floor, view = half.floors.get(actor, 0), found.actors.get(actor)
            known = [view.state, output.printable(view.display.encode()), str(view.last_seen)] if view else ["", "", ""]
            yield [*place, _text(actor), sign, str(total), str(floor), f"{sign}{total - floor}", *known]
    if empty:
        yield [*place, "", "", "", "", "0", "", "", ""]


def _as_json(name: str, found: Inspection) -> dict[str, object]:
    return {
        "name": output.to_json_text(os.fsencode(name)),
        "value": found.value,
        "shards": [
            {
                "shard": part.shard,
                "bucket": part.bucket,
                "key": output.to_json_text(part.key),
                "dot": _text(part.map.dot) if part.map.dot is not None else None,
                "value": part.map.value,
                "base": {sign: half.base for sign, half in _halves(part)},
                "slots": [
                    {"actor": _text(actor), "sign": sign, "total": total, "floor": half.floors.get(actor, 0)}
                    for sign, half in _halves(part)
                    for actor, total in half.slots.items()
                ],
            }
            for part in found.parts
        ],
        "actors": {
            _text(actor): {"state": view.state, "seq": view.seq, "last_seen": view.last_seen, "writer": view.display}
            for actor, view in found.actors.items()
        },
    }


def _text(identifier: bytes) -> str:
    return output.printable(identifier)
