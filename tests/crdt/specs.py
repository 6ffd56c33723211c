"""What each type tells the law harness. A new type adds its lines here, before its code."""

from __future__ import annotations

from hypothesis import strategies as st

from redis_counters.crdt.gcounter import GCounter
from redis_counters.crdt.pncounter import PNCounter

from .laws import AnySpec, Spec

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

SPECS: tuple[AnySpec, ...] = (GCOUNTER, PNCOUNTER)
