"""``inspect``: what Redis holds of one counter, shard by shard."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from redis_counters.cli import options, output
from redis_counters.cli.client import opened
from redis_counters.crdt.slotmap import Half
from redis_counters.errors import Refused

if TYPE_CHECKING:
    from redis_counters.protocol.read.inspection import ActorView, Inspection, RegionView, ShardView

COLUMNS = ["shard", "actor", "total", "floor", "state", "seen", "writer"]
NUMBERS = ["shard", "total", "floor"]
_FOLDED = ["actor", "writer"]  # where a narrow terminal breaks lines
_ENTRY = ("plus", "minus", "floor_plus", "floor_minus")
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def inspect(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the counter.")],
    url: options.Url = options.DEFAULT_URL,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    region: options.Region = options.DEFAULT_REGION,
    as_json: options.Json = False,
) -> None:
    """Show what Redis holds of a counter: its shards, and in each the slots of the actors, floors and base.

    The value is the sum of the totals less their floors: what a floor covers was deleted, or reset. Totals below zero
    are of decrements. 'base' is what actors that ended had counted. 'seen' is when the actor last told that it lives.
    REGION/DOT is what another region has told; '/DOT' are this one's own: 'live' is the sum of what stands above it.
    --json tells more.
    """
    with opened(url, namespace, region) as counters:
        try:
            found = counters.inspect(output.to_bytes(name))
        except Refused as error:
            if error.inspection is not None:
                _show(name, error.inspection, as_json=as_json)
            raise
    _show(name, found, as_json=as_json)


def _show(name: str, found: Inspection, *, as_json: bool) -> None:
    if as_json:
        output.print_json(_as_json(name, found))
        return
    shards = "1 shard" if found.shards == 1 else f"{found.shards} shards"
    if len(found.parts) < found.shards:
        shards = f"{len(found.parts)} of {shards}"
    rows = [row for part in found.parts for row in _rows(part, found, time.time())]
    about = f"{output.printable(os.fsencode(name))}: {found.value} in {shards}"
    output.print_lines([(about if rows else f"{about}, Redis holds nothing of it").encode()])
    if rows:
        output.print_table("", COLUMNS, rows, numbers=NUMBERS, folded=_FOLDED)
    if found.regions:
        cells = [[name, str(told.value), _as_of(told, time.time())] for name, told in found.regions.items()]
        cells[0][2] = "now"  # it is the region that was asked
        output.print_table("", ["region", "of the value", "as of"], cells, numbers=["of the value"])


def _halves(part: ShardView) -> list[tuple[str, Half]]:
    return [("+", part.map.plus), ("-", part.map.minus)]


def _rows(part: ShardView, found: Inspection, now: float) -> Iterator[list[str]]:
    """The entries of a shard, one row each."""
    for sign, half in _halves(part):
        if half.base:
            yield [str(part.shard), "base", f"{sign}{half.base}", "", "", "", ""]
        for actor, total in half.slots.items():
            floor, view = half.floors.get(actor, 0), found.actors.get(actor)
            known = ["", "", ""]
            if view:
                known = [view.state, _age(view, now), output.printable(view.display.encode())]
            yield [str(part.shard), _text(actor), f"{sign}{total}", f"{sign}{floor}" if floor else "", *known]
    for place in part.entries.places():
        plus, minus, floor_plus, floor_minus = part.entries.entry(place)
        live = place == b"/" + (part.map.dot or b"")
        state = "live" if live else "earlier" if place.startswith(b"/") else "region"
        if live:  # of it base and slots have their own rows: here is what peers have had beyond them
            plus, minus = plus - part.map.plus.value, minus - part.map.minus.value
        for sign, total, floor in (("+", plus, floor_plus), ("-", minus, floor_minus)):
            if total or floor:
                shown = [f"{sign}{total}" if total else "", f"{sign}{floor}" if floor else ""]
                yield [str(part.shard), _text(place), *shown, state, "", ""]


def _as_of(view: RegionView, now: float) -> str:
    if view.as_of is None:
        return "not known"
    return f"{how_long(int(now - view.as_of if view.age is None else view.age))} ago"


def _age(view: ActorView, now: float) -> str:
    """How long ago it was seen, by the server's clock; by this machine's where that may not be asked."""
    if not view.last_seen:
        return ""
    return f"{how_long(int(now - view.last_seen) if view.age is None else view.age)} ago"


def how_long(seconds: int) -> str:
    """A time in its largest whole unit; 0 for one below."""
    seconds = max(0, seconds)
    unit, size = next((unit for unit in _UNITS if seconds >= unit[1]), _UNITS[-1])
    return f"{seconds // size} {unit}"


def _as_json(name: str, found: Inspection) -> dict[str, object]:
    return {
        "name": output.to_json_text(os.fsencode(name)),
        "value": found.value,
        "regions": {name: {"value": told.value, "as_of": told.as_of} for name, told in found.regions.items()},
        "shards": [
            {
                "shard": part.shard,
                "bucket": part.bucket,
                "key": output.to_json_text(part.key),
                "dot": _text(part.map.dot) if part.map.dot is not None else None,
                "value": part.value,
                "base": {sign: half.base for sign, half in _halves(part)},
                "slots": [
                    {"actor": _text(actor), "sign": sign, "total": total, "floor": half.floors.get(actor, 0)}
                    for sign, half in _halves(part)
                    for actor, total in half.slots.items()
                ],
                "entries": [
                    {"entry": _text(place), **dict(zip(_ENTRY, part.entries.entry(place), strict=True))}
                    for place in part.entries.places()
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
