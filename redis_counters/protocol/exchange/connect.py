"""Two regions agree before they exchange anything: both have names and ids, know each other, and have joined."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from redis_counters.errors import CounterError, SchemaMismatch, Unavailable, reworded
from redis_counters.protocol.exchange.asks import DESTINATION, SOURCE, Asks, on
from redis_counters.protocol.exchange.joining import join, unjoined
from redis_counters.protocol.exchange.members import Region, agree, check_free, look, record, settle
from redis_counters.protocol.exchange.route import Route
from redis_counters.protocol.exchange.state import Common
from redis_counters.protocol.wire.commands import Command

T = TypeVar("T")


class Waiting(Unavailable):
    """Another pair holds what this pair needs; retry shortly."""


class Connecting:
    """One attempt of a pair of regions to agree."""

    def __init__(self, names: tuple[bytes, bytes], common: Common) -> None:
        self.names = names
        self.common = common

    def run(self) -> Asks[Route]:
        """Return the commands between the two. Raises: SchemaMismatch, Refused, Unavailable."""
        options, namespace = self.common.options, self.common.options.namespace
        regions: list[Region] = []
        for side, name in enumerate(self.names):
            region = yield from self._on(side, look(namespace, name))
            self.common.saw(name, region)
            regions.append(region)
        looked = tuple(regions)
        for side, region in enumerate(looked):
            if region.id is None:  # another exchange may have given it one, and recorded it with the peer, meanwhile
                regions[side] = yield from self._on(side, look(namespace, region.name))
            check_free(regions[side], looked)
        for side, region in enumerate(regions):
            if region.keys is None or region.id is None or region.name not in region.members:
                buckets = region.keys.buckets if region.keys is not None else self.common.buckets_of_new()
                if buckets is None:
                    raise Waiting("other regions have not been looked at yet, and say how many buckets there are")
                settling = settle(namespace, region.name, buckets, options.mint().encode())
                regions[side] = yield from self._on(side, settling)
        news = agree(regions[SOURCE], regions[DESTINATION])
        for side, region in enumerate(regions):
            if members := news[region.name]:
                assert region.id is not None
                yield from self._on(side, record(namespace, region.name, region.id, members))
                regions[side] = region._replace(members={**region.members, **members})
        for side, region in enumerate(regions):
            yield from self._join(side, region)
        source, destination = regions
        assert source.keys is not None
        known = (list(source.members), list(destination.members))
        return Route(source.name, destination.name, source.keys, known, options.durability)

    def _join(self, side: int, region: Region) -> Asks[None]:
        assert region.keys is not None
        assert region.id is not None
        if region.id in self.common.joined:
            return
        walked_by = self.common.joining
        if walked_by.get(region.name, self.names) != self.names:
            raise Waiting("another pair walks over the keys there")
        buckets = yield from self._on(side, unjoined(region.keys))
        if buckets:
            if walked_by.setdefault(region.name, self.names) != self.names:
                raise Waiting("another pair walks over the keys there")
            try:
                yield from self._on(side, join(region.keys, buckets, self.common.options.mint))
            finally:
                del walked_by[region.name]
        self.common.joined.add(region.id)

    def _on(self, side: int, steps: Generator[list[Command], list[object], T]) -> Asks[T]:
        """As `on`, with errors that say which region it was."""
        try:
            return (yield from on(side, steps))
        except SchemaMismatch:  # whose text names regions
            raise
        except CounterError as error:
            raise with_region(error, self.names[side]) from error


def with_region(error: CounterError, name: bytes) -> CounterError:
    """Return the error with the region's name in front."""
    return reworded(error, f"region {name.decode()}: {error}")
