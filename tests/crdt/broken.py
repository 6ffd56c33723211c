"""Types with one fault each, and a law that the fault breaks: what the harness is there to notice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from redis_counters.crdt.bounded import BoundedCounter
from redis_counters.crdt.gcounter import GCounter
from redis_counters.crdt.pncounter import PNCounter

from . import laws
from .laws import AnySpec, Law
from .specs import BOUNDED, GCOUNTER, PNCOUNTER


class IntactG(GCounter):
    """Nothing is wrong with it; what is derived from it stays of its class, and has one fault each."""

    __slots__ = ()

    def increment(self, actor: bytes, amount: int = 1) -> GCounter:
        return type(self)({**self.slots, actor: self.slots.get(actor, 0) + amount})

    def delta(self, actor: bytes, amount: int = 1) -> GCounter:
        return type(self)(super().delta(actor, amount).slots)

    def merge(self, other: GCounter, /) -> GCounter:
        return type(self)(super().merge(other).slots)

    def decompose(self) -> Iterator[GCounter]:
        return (type(self)(part.slots) for part in super().decompose())


class IntactPN(PNCounter):
    """The same for PN-counters."""

    __slots__ = ()

    def increment_delta(self, actor: bytes, amount: int = 1) -> PNCounter:
        return type(self)(plus=self.plus.delta(actor, amount))

    def decrement_delta(self, actor: bytes, amount: int = 1) -> PNCounter:
        return type(self)(minus=self.minus.delta(actor, amount))

    def merge(self, other: PNCounter, /) -> PNCounter:
        return type(self)(self.plus.merge(other.plus), self.minus.merge(other.minus))

    def decompose(self) -> Iterator[PNCounter]:
        return (type(self)(part.plus, part.minus) for part in super().decompose())


class MergeAdds(IntactG):
    __slots__ = ()

    def merge(self, other: GCounter, /) -> GCounter:
        actors = [*self.slots, *other.slots]
        return type(self)({actor: self.slots.get(actor, 0) + other.slots.get(actor, 0) for actor in actors})


class MergeTakesTheLast(IntactG):
    __slots__ = ()

    def merge(self, other: GCounter, /) -> GCounter:
        return type(self)({**self.slots, **other.slots})


class MergeTakesTheLarger(IntactG):
    """Whole states, by value: commutative, associative and idempotent."""

    __slots__ = ()

    def merge(self, other: GCounter, /) -> GCounter:
        return max(self, other, key=lambda x: (x.value, sorted(x.slots.items())))


class MergeDropsASlot(IntactG):
    """A slot that only one side has, when the other side has two already."""

    __slots__ = ()

    def merge(self, other: GCounter, /) -> GCounter:
        merged = super().merge(other)
        if len(merged.slots) <= 2 or len(self.slots) == 3:
            return merged
        return type(self)({actor: merged.slots[actor] for actor in sorted(merged.slots)[:2]})


class MergeKeepsOwnWhenSumsAgree(IntactG):
    """A short cut that is wrong: equal values do not make equal states."""

    __slots__ = ()

    def merge(self, other: GCounter, /) -> GCounter:
        return self if self.value == other.value else super().merge(other)


class OrderByValue(IntactG):
    __slots__ = ()

    def __le__(self, other: GCounter, /) -> bool:
        return self.value <= other.value


class OrderIgnoresAbsentSlots(IntactG):
    __slots__ = ()

    def __le__(self, other: GCounter, /) -> bool:
        return all(total <= other.slots.get(actor, total) for actor, total in self.slots.items())


class DeltaIsTheAmount(IntactG):
    __slots__ = ()

    def delta(self, actor: bytes, amount: int = 1) -> GCounter:
        return type(self)({actor: amount})


class IncrementStartsAgain(IntactG):
    """A writer that lost its total and goes on under its old name."""

    __slots__ = ()

    def increment(self, actor: bytes, amount: int = 1) -> GCounter:
        return type(self)({**self.slots, actor: amount})


class OneSlotForAll(IntactG):
    """Two writers under one name."""

    __slots__ = ()

    def delta(self, actor: bytes, amount: int = 1) -> GCounter:
        return super().delta(b"everyone", amount)

    def increment(self, actor: bytes, amount: int = 1) -> GCounter:
        return self.merge(self.delta(actor, amount))


class FloatValue(IntactG):
    __slots__ = ()

    @property
    def value(self) -> int:
        return int(sum(float(total) for total in self.slots.values()))


class PartsMissTheLast(IntactG):
    __slots__ = ()

    def decompose(self) -> Iterator[GCounter]:
        yield from list(super().decompose())[:2]


class PartsOverlap(IntactG):
    __slots__ = ()

    def decompose(self) -> Iterator[GCounter]:
        return (type(self)(dict(list(self.slots.items())[: i + 1])) for i in range(len(self.slots)))


class NetOnly(IntactPN):
    """One entry an actor, the net, merged by maximum: what a decrement did is lost."""

    __slots__ = ()

    def merge(self, other: PNCounter, /) -> PNCounter:
        net = {}
        for actor in {*self.plus.slots, *self.minus.slots, *other.plus.slots, *other.minus.slots}:
            net[actor] = max(x.plus.slots.get(actor, 0) - x.minus.slots.get(actor, 0) for x in (self, other))
        return type(self)(
            GCounter({actor: n for actor, n in net.items() if n > 0}),
            GCounter({actor: -n for actor, n in net.items() if n < 0}),
        )


class MinusForgotten(IntactPN):
    """Merges what was added only."""

    __slots__ = ()

    def merge(self, other: PNCounter, /) -> PNCounter:
        return replace(self, plus=self.plus.merge(other.plus))


class PartsBySignTogether(IntactPN):
    """One part an actor instead of one for each actor and sign."""

    __slots__ = ()

    def decompose(self) -> Iterator[PNCounter]:
        for actor in {*self.plus.slots, *self.minus.slots}:
            yield type(self)(*(GCounter({actor: half.slots.get(actor, 0)}) for half in (self.plus, self.minus)))


class TransfersOverwritten(BoundedCounter):
    """Counts are merged, but of the transfers the last copy is taken."""

    __slots__ = ()

    def merge(self, other: BoundedCounter, /) -> BoundedCounter:
        return replace(super().merge(other), given=other.given)


class PartsMissTransfers(BoundedCounter):
    __slots__ = ()

    def decompose(self) -> Iterator[BoundedCounter]:
        return (type(self)(self.bounds, counts=part) for part in self.counts.decompose())


def _g(broken: type[GCounter]) -> AnySpec:
    return replace(GCOUNTER, name=broken.__name__, bottom=broken(), apply=broken.increment, delta=broken.delta)


def _pn(broken: type[PNCounter]) -> AnySpec:
    return replace(PNCOUNTER, name=broken.__name__, bottom=broken())


def _bounded(broken: type[BoundedCounter]) -> AnySpec:
    return replace(BOUNDED, name=broken.__name__, bottom=broken())


INTACT: tuple[AnySpec, ...] = (_g(IntactG), _pn(IntactPN), BOUNDED)

BROKEN: tuple[tuple[AnySpec, Law], ...] = (
    (_g(MergeAdds), laws.idempotent),
    (_g(MergeAdds), laws.old_copies_change_nothing),
    (_g(MergeTakesTheLast), laws.commutative),
    (_g(MergeTakesTheLast), laws.old_copies_change_nothing),
    (_g(MergeTakesTheLarger), laws.states_say_what_they_know),
    (_g(MergeTakesTheLarger), laws.exact_after_exchange),
    (_g(MergeDropsASlot), laws.least_upper_bound),
    (_g(MergeKeepsOwnWhenSumsAgree), laws.commutative),
    (_g(OrderByValue), laws.order_is_merge),
    (_g(OrderIgnoresAbsentSlots), laws.order_is_merge),
    (_g(DeltaIsTheAmount), laws.delta_is_mutation),
    (_g(IncrementStartsAgain), laws.inflation),
    (_g(OneSlotForAll), laws.exact_after_exchange),
    (_g(FloatValue), laws.states_say_what_they_know),
    (_g(PartsMissTheLast), laws.decomposes),
    (_g(PartsOverlap), laws.decomposes),
    (_pn(NetOnly), laws.old_copies_change_nothing),
    (_pn(MinusForgotten), laws.exact_after_exchange),
    (_pn(PartsBySignTogether), laws.decomposes),
    (_bounded(TransfersOverwritten), laws.commutative),
    (_bounded(TransfersOverwritten), laws.old_copies_change_nothing),
    (_bounded(PartsMissTransfers), laws.decomposes),
)

MERGED_WRONGLY: tuple[AnySpec, ...] = (
    _g(MergeAdds),
    _g(MergeTakesTheLast),
    _g(MergeTakesTheLarger),
    _g(MergeDropsASlot),
    _g(OneSlotForAll),
    _pn(NetOnly),
    _pn(MinusForgotten),
    _bounded(TransfersOverwritten),
)
