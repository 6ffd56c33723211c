"""What each type tells the law harness. A new type adds its lines here, before its code."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from redis_counters.crdt.bounded import BoundedCounter, Bounds
from redis_counters.crdt.gcounter import GCounter
from redis_counters.crdt.pncounter import PNCounter
from redis_counters.crdt.regional import RegionalShard
from redis_counters.crdt.resettable import ResettableCounter

from .laws import ACTORS, AnySpec, Spec

# Small ones make sums collide; the large ones are where floats and int64 end.
amounts = st.integers(0, 1) | st.integers(0, 6) | st.sampled_from([2**53, 2**53 + 1, 2**63 - 1, 10**24])
signed_amounts = amounts | amounts.map(lambda amount: -amount)

GCOUNTER: Spec[GCounter, int] = Spec(
    "gcounter",
    bottom=GCounter(),
    operations=amounts,
    apply=GCounter.increment,
    delta=GCounter.delta,
    amount=int,
    grows=True,
)

PNCOUNTER: Spec[PNCounter, int] = Spec(
    "pncounter",
    bottom=PNCounter(),
    operations=signed_amounts,
    apply=lambda x, actor, n: x.increment(actor, n) if n >= 0 else x.decrement(actor, -n),
    delta=lambda x, actor, n: x.increment_delta(actor, n) if n >= 0 else x.decrement_delta(actor, -n),
    amount=int,
)

# Resets are no operation of the harness: what one takes away depends on what it has seen. See test_resettable.
RESETTABLE: Spec[ResettableCounter, int] = Spec(
    "resettable",
    bottom=ResettableCounter(),
    operations=signed_amounts,
    apply=lambda x, actor, n: x.increment(actor, n) if n >= 0 else x.decrement(actor, -n),
    delta=lambda x, actor, n: x.increment_delta(actor, n) if n >= 0 else x.decrement_delta(actor, -n),
    amount=int,
)

# An actor is a region here: it counts in one of its dots, and may have more shards, or expire later, than it did.
Regional = tuple[int, int, int, int]
regional: st.SearchStrategy[Regional] = st.tuples(
    st.integers(0, 1), signed_amounts, st.sampled_from([0, 0, 2, 8]), st.sampled_from([0, 0, 10**12])
)


def _counted(x: RegionalShard, region: bytes, op: Regional) -> RegionalShard:
    (_dot, amount, shards, expiry), place = op, b"%b/%d" % (region, op[0])
    after = x.increment(place, amount) if amount >= 0 else x.decrement(place, -amount)
    return replace(after, shards=max(x.shards, shards), expiry=max(x.expiry, expiry))


def _counted_delta(x: RegionalShard, region: bytes, op: Regional) -> RegionalShard:
    (_dot, amount, shards, expiry), place = op, b"%b/%d" % (region, op[0])
    delta = x.increment_delta(place, amount) if amount >= 0 else x.decrement_delta(place, -amount)
    return replace(delta, shards=shards, expiry=expiry)


REGIONAL: Spec[RegionalShard, Regional] = Spec(
    "regional",
    bottom=RegionalShard(),
    operations=regional,
    apply=_counted,
    delta=_counted_delta,
    amount=lambda op: op[1],
)


class Capped(BoundedCounter):
    """One with both bounds."""

    __slots__ = ()

    @classmethod
    def bottom(cls) -> BoundedCounter:
        return cls(Bounds(0, 20, ACTORS[0]))


# An actor gives to the next: rights, or room. Operations may be refused, but none is a mistake.
Bounded = tuple[str, int]
bounded_amounts = st.integers(1, 6) | st.sampled_from([2**53 + 1, 10**24])
bounded: st.SearchStrategy[Bounded] = st.tuples(st.sampled_from(["inc", "inc", "dec", "give"]), bounded_amounts)
capped: st.SearchStrategy[Bounded] = st.tuples(st.sampled_from(["inc", "dec", "give", "give room"]), st.integers(1, 9))


def _next(actor: bytes) -> bytes:
    return ACTORS[(ACTORS.index(actor) + 1) % len(ACTORS)]


def _tried(x: BoundedCounter, actor: bytes, op: Bounded) -> BoundedCounter | None:
    what, amount = op
    if what == "inc":
        return x.try_inc(actor, amount)
    if what == "dec":
        return x.try_dec(actor, amount)
    return (x.transfer if what == "give" else x.transfer_room)(actor, _next(actor), amount)


def _tried_delta(x: BoundedCounter, actor: bytes, op: Bounded) -> BoundedCounter | None:
    what, amount = op
    if what == "inc":
        return x.try_inc_delta(actor, amount)
    if what == "dec":
        return x.try_dec_delta(actor, amount)
    return (x.transfer_delta if what == "give" else x.transfer_room_delta)(actor, _next(actor), amount)


BOUNDED: Spec[BoundedCounter, Bounded] = Spec(
    "bounded",
    bottom=BoundedCounter.bottom(),
    operations=bounded,
    apply=_tried,
    delta=_tried_delta,
    amount=lambda op: {"inc": op[1], "dec": -op[1]}.get(op[0], 0),
)

CAPPED: Spec[BoundedCounter, Bounded] = replace(BOUNDED, name="capped", bottom=Capped.bottom(), operations=capped)

SPECS: tuple[AnySpec, ...] = (GCOUNTER, PNCOUNTER, RESETTABLE, REGIONAL, BOUNDED, CAPPED)
