"""The totals of one flush, and the call of slots_merge that sends them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from redis_counters.protocol.wire.commands import Argument, Command, Script
from redis_counters.protocol.wire.keys import index_of, shard_of
from redis_counters.protocol.wire.replies import BadReply
from redis_counters.protocol.write.expiries import Expiries
from redis_counters.protocol.write.slot_totals import SlotKind, SlotTotals

Totals = tuple[dict[bytes, int], dict[bytes, int], dict[bytes, int]]


class Chunk:
    """The totals of one flush: by key, for each kind of slot, in the order of its items.

    ``items``: kind and key by item number; None if all are PLUS, in the order of the dict.
    """

    __slots__ = ("answered", "base", "items", "refused", "seq", "totals")

    def __init__(self, seq: int, base: int, totals: Totals, items: Sequence[tuple[SlotKind, bytes]] | None) -> None:
        self.seq = seq
        self.base = base
        self.totals = totals
        self.items = items
        self.answered = False  # with OK; else it may or may not be applied
        self.refused: set[tuple[SlotKind, bytes]] = set()  # Redis rejected these alone: they were not applied

    def __len__(self) -> int:
        return sum(map(len, self.totals))

    def applied(self, kind: SlotKind) -> dict[bytes, int]:
        """Return the totals of a kind but for those that were refused."""
        totals = self.totals[kind]
        return {k: v for k, v in totals.items() if (kind, k) not in self.refused} if self.refused else totals

    def item(self, number: int) -> tuple[SlotKind, bytes]:
        """Return the kind and key of an item, counted from 1 as the script does. Raises BadReply if there is none."""
        if not 1 <= number <= len(self):
            raise BadReply(f"item {number} of {len(self)}")
        if self.items is not None:
            return self.items[number - 1]
        return SlotKind.PLUS, next(islice(self.totals[SlotKind.PLUS], number - 1, None))


class FlushHeader(NamedTuple):
    """Actor id, flush number, base number: the script checks these before it writes."""

    actor: bytes
    seq: int
    base: int
    exact: int


def increments(
    registry: bytes,
    header: FlushHeader,
    keys: list[bytes],
    total: Mapping[bytes, int],
    acknowledged: Mapping[bytes, int],
    expiries: Expiries,
) -> tuple[Chunk, Command]:
    """Return the common flush, increments only: as little work per counter as there can be."""
    fresh = len(keys)
    if acknowledged:
        known = [k for k in keys if k in acknowledged]
        if known:
            keys = [k for k in keys if k not in acknowledged] + known
            fresh = len(keys) - len(known)
    values = [total[k] for k in keys]
    chunk = Chunk(header.seq, header.base, (dict(zip(keys, values)), {}, {}), None)  # noqa: B905 - strict= costs time here
    counts = (fresh, 0, len(keys) - fresh, 0, 0, 0, 0)
    return chunk, _merge(registry, keys, (*header, *counts), values, expiries)


def mixed(
    registry: bytes, header: FlushHeader, totals: Totals, tables: Sequence[SlotTotals], expiries: Expiries
) -> tuple[Chunk, Command]:
    """Return a flush with decrements, floors or numbers of shards among its items."""
    items: list[tuple[SlotKind, bytes]] = []
    values: list[Argument] = []
    counts: list[int] = []

    def group(kind: SlotKind, wanted: Callable[[bytes, SlotTotals], bool], *, floors: bool = False) -> None:
        table, count = tables[kind], 0
        for key, total in totals[kind].items():
            if wanted(key, table):
                items.append((kind, key))
                values.append(total)
                if floors:
                    values.append(table.acknowledged.get(key, 0))
                count += 1
        counts.append(count)

    for wanted, floors in ((_fresh, False), (_known, False), (_floored, True)):
        for kind in (SlotKind.PLUS, SlotKind.MINUS):
            group(kind, wanted, floors=floors)
    group(SlotKind.SHARDS, lambda _key, _table: True)
    chunk = Chunk(header.seq, header.base, totals, items)
    return chunk, _merge(registry, [key for _, key in items], (*header, *counts), values, expiries)


def _merge(
    registry: bytes, keys: list[bytes], head: tuple[Argument, ...], values: Sequence[Argument], expiries: Expiries
) -> Command:
    """Return the command; with it goes when counters expire, so that none is ever without that."""
    expiring = expiries.among(keys)
    return Command(
        Script.SLOTS_MERGE, (registry, index_of(registry), *keys), (*head, len(expiring) // 2, *values, *expiring)
    )


# A shard other than 0 may be sealed, so a slot that may be new there is sent like one with a floor: the script
# looks at those before it writes anything.


def _fresh(key: bytes, table: SlotTotals) -> bool:
    return key not in table.acknowledged and shard_of(key) == 0


def _known(key: bytes, table: SlotTotals) -> bool:
    return key in table.acknowledged and key not in table.floored


def _floored(key: bytes, table: SlotTotals) -> bool:
    return key in table.floored if key in table.acknowledged else shard_of(key) > 0
