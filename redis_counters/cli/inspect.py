"""``inspect``: what Redis holds of one counter, shard by shard."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from redis_counters.cli import options, output
from redis_counters.cli.client import opened
from redis_counters.crdt.slotmap import Half
from redis_counters.errors import Refused

if TYPE_CHECKING:
    from redis_counters.protocol.read.inspection import Inspection, ShardView

COLUMNS = ["shard", "actor", "total", "floor", "state", "seen", "writer"]
_NUMBERS = ["shard", "total", "floor"]
_FOLDED = ["actor", "writer"]  # where a narrow terminal breaks lines
_ENTRY = ("plus", "minus", "floor_plus", "floor_minus")


def inspect(
    name: options.Name,
    url: options.Url = options.DEFAULT_URL,
    namespace: options.Namespace = options.DEFAULT_NAMESPACE,
    region: options.Region = options.DEFAULT_REGION,
    as_json: options.Json = False,
) -> None:
    """Show what Redis holds of a counter: its shards, and in each the slots of the actors, floors and base.

    The value is the sum of the totals less their floors: what a floor covers was deleted, or reset. Totals below zero
    are of decrements. 'base' is the count of actors that ended. 'seen' is the actor's last heartbeat. REGION/DOT was
    received from another region; '/DOT' are this one's own: 'live' is the sum of what stands above it. --json prints
    more.
    """
    counter = output.to_bytes(name)
    with opened(url, namespace, region) as counters:
        try:
            found = counters.inspect(counter)
        except Refused as error:
            if error.inspection is not None:
                _show(counter, error.inspection, as_json=as_json)
            raise
    _show(counter, found, as_json=as_json)


def _show(name: bytes, found: Inspection, *, as_json: bool) -> None:
    if as_json:
        output.print_json(_as_json(name, found))
        return
    now = time.time()
    shards = output.number_of(found.shards, "shard")
    if len(found.parts) < found.shards:
        shards = f"{len(found.parts)} of {shards}"
    rows = [row for part in found.parts for row in _rows(part, found, now)]
    about = f"{output.printable(name)}: {found.value} in {shards}"
    output.print_lines([about if rows else f"{about}, Redis holds nothing of it"])
    if rows:
        output.print_table(COLUMNS, rows, numbers=_NUMBERS, folded=_FOLDED)
    if found.regions:
        cells = [
            [region, str(part.value), "not known" if part.as_of is None else _ago(part.as_of, part.age, now)]
            for region, part in found.regions.items()
        ]
        cells[0][2] = "now"  # it is the region that was asked
        output.print_table(["region", "of the value", "as of"], cells, numbers=["of the value"])


def _halves(part: ShardView) -> list[tuple[str, Half]]:
    return [("+", part.map.plus), ("-", part.map.minus)]


def _rows(part: ShardView, found: Inspection, now: float) -> Iterator[list[str]]:
    """Yield a row for each entry of a shard."""
    for sign, half in _halves(part):
        if half.base:
            yield [str(part.shard), "base", f"{sign}{half.base}", "", "", "", ""]
        for actor, total in half.slots.items():
            floor, view = half.floors.get(actor, 0), found.actors.get(actor)
            known = ["", "", ""]
            if view:
                seen = _ago(view.last_seen, view.age, now) if view.last_seen else ""
                known = [view.state, seen, output.printable(view.display)]
            yield [
                *(str(part.shard), output.printable(actor), f"{sign}{total}", f"{sign}{floor}" if floor else ""),
                *known,
            ]
    for place in part.entries.places():
        plus, minus, floor_plus, floor_minus = part.entries.entry(place)
        live = place == b"/" + (part.map.dot or b"")
        state = "live" if live else "earlier" if place.startswith(b"/") else "region"
        if live:  # its base and slots have rows of their own: this one is what peers have had beyond them
            plus, minus = plus - part.map.plus.value, minus - part.map.minus.value
        for sign, total, floor in (("+", plus, floor_plus), ("-", minus, floor_minus)):
            if total or floor:
                shown = [f"{sign}{total}" if total else "", f"{sign}{floor}" if floor else ""]
                yield [str(part.shard), output.printable(place), *shown, state, "", ""]


def _ago(seen: float, age: float | None, now: float) -> str:
    """Return how long ago that was: ``age`` by the server's clock, else by this machine's."""
    return f"{output.how_long(int(now - seen if age is None else age))} ago"


def _as_json(name: bytes, found: Inspection) -> dict[str, object]:
    return {
        "name": output.to_json_text(name),
        "value": found.value,
        "regions": {region: {"value": part.value, "as_of": part.as_of} for region, part in found.regions.items()},
        "shards": [
            {
                "shard": part.shard,
                "bucket": part.bucket,
                "key": output.to_json_text(part.key),
                "dot": output.printable(part.map.dot) if part.map.dot is not None else None,
                "value": part.value,
                "base": {sign: half.base for sign, half in _halves(part)},
                "slots": [
                    {"actor": output.printable(actor), "sign": sign, "total": total, "floor": half.floors.get(actor, 0)}
                    for sign, half in _halves(part)
                    for actor, total in half.slots.items()
                ],
                "entries": [
                    {"entry": output.printable(place), **dict(zip(_ENTRY, part.entries.entry(place), strict=True))}
                    for place in part.entries.places()
                ],
            }
            for part in found.parts
        ],
        "actors": {
            output.printable(actor): {
                "state": view.state,
                "seq": view.seq,
                "last_seen": view.last_seen,
                "writer": view.display,
            }
            for actor, view in found.actors.items()
        },
    }
