"""Any sequence of calls leaves in a shard what the pure functions of `crdt.slotmap` say."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from redis_counters.crdt.slotmap import Sign, SlotMap, fold, raise_slots
from tests.lua.calls import HIGHEST, Bucket, key

SHARDS = (key("a"), key("b"))

Slot = tuple[bytes, Sign]
Step = tuple[str, int, list[tuple[bytes, Sign, int]]]

amounts = st.sampled_from([1, 9, 10**17, 2**53 + 1, 2**62, HIGHEST]) | st.integers(1, 2**62)
shards = st.sampled_from(SHARDS)
actors = st.integers(0, 2)
signs: st.SearchStrategy[Sign] = st.sampled_from(["+", "-"])
nothing: st.SearchStrategy[list[tuple[bytes, Sign, int]]] = st.builds(list)
steps: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("count"), actors, st.lists(st.tuples(shards, signs, amounts), min_size=1, max_size=4)),
    st.tuples(st.just("repeat"), actors, nothing),
    st.tuples(st.just("tell all"), actors, nothing),
    st.tuples(st.just("end"), actors, nothing),
    st.tuples(st.just("delete"), actors, st.lists(st.tuples(shards, signs, amounts), min_size=1, max_size=1)),
)


@dataclass
class Owner:
    """An honest client: its totals, what of them was acknowledged, and its last flush."""

    id: bytes
    seq: int = 0
    totals: dict[Slot, int] = field(default_factory=dict)
    acknowledged: dict[Slot, int] = field(default_factory=dict)


class Run:
    """The scripts on a server, and beside them the same as values."""

    def __init__(self, bucket: Bucket) -> None:
        bucket.client.flushall()
        self.bucket = bucket
        self.model = dict.fromkeys(SHARDS, SlotMap())
        self.opened = 0
        self.owners = [self.open() for _ in range(3)]

    def open(self) -> Owner:
        self.opened += 1
        return Owner(self.bucket.actor(b"owner%04d" % self.opened))

    def step(self, what: str, number: int, told: list[tuple[bytes, Sign, int]]) -> None:
        owner = self.owners[number]
        if what == "count":
            for shard, sign, amount in told:
                owner.totals[shard, sign] = min(HIGHEST, owner.totals.get((shard, sign), 0) + amount)
            self.flush(owner, {(shard, sign) for shard, sign, _ in told})
        elif what == "tell all":  # as after a fail-over
            owner.acknowledged.clear()
            self.flush(owner, set(owner.totals))
        elif what == "repeat" and owner.seq:
            assert self.send(owner, set(owner.totals), set())[0] == "STALE"
        elif what == "delete":
            self.bucket.client.delete(told[0][0])
            self.model[told[0][0]] = SlotMap()
        elif what == "end":
            self.bucket.end(owner.id, *SHARDS, base=owner.seq)
            self.bucket.fold(owner.id, *SHARDS)
            self.model = {shard: fold(state, owner.id) for shard, state in self.model.items()}
            assert self.send(owner, set(owner.totals), set())[0] == "CLOSED"
            self.owners[number] = self.open()

    def flush(self, owner: Owner, slots: set[Slot]) -> None:
        """Tell these totals, where some are missing a second time, until they are there; and so the model."""
        owner.seq += 1
        missing = {s for s in slots if s in owner.acknowledged and owner.id not in self.half(s)}
        answer = self.send(owner, slots, set())
        if missing:
            assert answer[0] == "MISSING"
            assert len(answer) == 1 + len(missing)
            answer = self.send(owner, slots, missing)
        assert answer == ("OK", owner.seq)
        for slot in slots:
            shard, sign = slot
            floor = owner.acknowledged.get(slot, 0)
            self.model[shard] = raise_slots(self.model[shard], owner.id, sign, owner.totals[slot], floor)
            owner.acknowledged[slot] = owner.totals[slot]

    def half(self, slot: Slot) -> frozenset[bytes]:
        state = self.model[slot[0]]
        return frozenset((state.plus if slot[1] == "+" else state.minus).slots)

    def send(self, owner: Owner, slots: set[Slot], missing: set[Slot]) -> tuple[str | bytes | int, ...]:
        def told(sign: Sign, known: bool) -> list[tuple[bytes, int]]:
            chosen = sorted(s for s in slots - missing if s[1] == sign and (s in owner.acknowledged) == known)
            return [(slot[0], owner.totals[slot]) for slot in chosen]

        def floored(sign: Sign) -> list[tuple[bytes, int, int]]:
            chosen = sorted(s for s in missing if s[1] == sign)
            return [(slot[0], owner.totals[slot], owner.acknowledged[slot]) for slot in chosen]

        return self.bucket.merge(
            owner.id,
            owner.seq,
            fresh_plus=told("+", False),
            fresh_minus=told("-", False),
            known_plus=told("+", True),
            known_minus=told("-", True),
            floored_plus=floored("+"),
            floored_minus=floored("-"),
        )

    def check(self) -> None:
        """Slots, floors and base are equal, and a shard has a dot as soon as it is there."""
        for shard, expected in self.model.items():
            found = self.bucket.map(shard)
            assert replace(found, dot=None) == expected
            assert (found.dot is not None) == bool(self.bucket.fields(shard))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=st.lists(steps, max_size=15))
@example(script=[("count", 0, [(SHARDS[0], "+", HIGHEST)]), ("end", 0, [])] * 3)
@example(script=[("count", 1, [(SHARDS[1], "-", 9)]), ("delete", 0, [(SHARDS[1], "-", 1)])] * 3 + [("end", 1, [])])
def test_scripts_do_what_the_algebra_says(bucket: Bucket, script: list[Step]) -> None:
    """Counting up to int64, repeats, deletions by hand, owners that end and are folded into bases beyond int64."""
    run = Run(bucket)
    for step in script:
        run.step(*step)
        run.check()
