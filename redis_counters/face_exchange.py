"""What both faces of the exchange have in common: options, and reading the regions' values."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

from redis_counters.drivers.clock import monotonic, wall
from redis_counters.drivers.exchange.places import RegionClient, RegionClients, open_place
from redis_counters.drivers.identity import mint
from redis_counters.drivers.redis_py.lanes import REPLY_TIMEOUT_S
from redis_counters.errors import UsageError
from redis_counters.events import Observer
from redis_counters.face import check_timeout
from redis_counters.protocol.core import Core
from redis_counters.protocol.wire.durability import Durability, check_durability
from redis_counters.protocol.wire.keys import namespace_bytes
from redis_counters.protocol.wire.region_names import Link
from redis_counters.protocol.wire.settings import make_settings


def make_places(
    regions: Mapping[str, Any],
    make: Any,
    *,
    asyncio: bool,
    namespace: str,
    interval: float,
    durability: Durability | None,
    links: Iterable[Link] | None,
    observer: Observer | None,
) -> RegionClients[Any]:
    """Return the regions and the pairs between them. Raises TypeError, UsageError for an option."""
    if observer is not None and not callable(observer):
        raise TypeError(f"observer must be callable, not {type(observer).__name__}")
    if isinstance(interval, bool) or not isinstance(interval, (int, float)):
        raise TypeError(f"interval must be a number of seconds, not {type(interval).__name__}")
    if not 0.001 <= interval <= 3600:
        raise UsageError(f"interval must be between 0.001 and 3600 seconds, got {interval}")
    check_durability(durability)
    name = namespace_bytes(namespace)
    places = open_places(regions, make, asyncio=asyncio, durability=durability)
    try:
        return RegionClients(places, name, float(interval), durability, links, observer)
    except BaseException:
        stop_all(places.values())
        raise


def open_places(
    regions: Mapping[str, Any], make: Any, *, asyncio: bool, durability: Durability | None
) -> dict[str, RegionClient[Any]]:
    """Return the places of regions, by name. Raises TypeError, UsageError."""
    if not isinstance(regions, Mapping):
        raise TypeError(f"regions must be a mapping from names to URLs or clients, not {type(regions).__name__}")
    places: dict[str, RegionClient[Any]] = {}
    try:
        for name, client in regions.items():
            places[name] = open_place(name, client, make, asyncio=asyncio)
            if durability is not None:
                check_timeout(durability, places[name].transport.reply_timeout() or REPLY_TIMEOUT_S)
    except BaseException:
        stop_all(places.values())
        raise
    return places


def stop_all(places: Iterable[RegionClient[Any]]) -> None:
    """What was started for them has ended; no connection was made yet."""
    for place in places:
        if place.opened is not None:
            place.opened.stop()


def reading_core(places: RegionClients[Any], place: RegionClient[Any]) -> Core:
    """Return a core that reads the values of a region."""
    settings = make_settings(namespace=places.common.options.namespace.decode())
    return Core(settings, mint, monotonic, wall, random.random, grouped=place.transport.grouped)


def skew(names: Mapping[Any, bytes], values: Iterable[Mapping[bytes, int]]) -> dict[Any, int]:
    """Return by how much the values of each name differ."""
    found = list(values)
    return {
        name: max((int(each[raw]) for each in found), default=0) - min((int(each[raw]) for each in found), default=0)
        for name, raw in names.items()
    }
