"""What the laws do not say of G- and PN-counters: what they refuse, and that they are values."""

from __future__ import annotations

import pytest

from redis_counters.crdt.gcounter import GCounter
from redis_counters.crdt.pncounter import PNCounter
from redis_counters.errors import UsageError


@pytest.mark.parametrize("amount", [True, 1.0, "1", None])
def test_an_amount_is_an_int(amount: int) -> None:
    """Anything else is a TypeError, in either direction and as a slot; bool too, though Python calls it an int."""
    for attempt in (
        lambda: GCounter().increment(b"a", amount),
        lambda: GCounter({b"a": amount}),
        lambda: PNCounter().increment(b"a", amount),
        lambda: PNCounter().decrement(b"a", amount),
    ):
        with pytest.raises(TypeError):
            attempt()


def test_an_amount_is_not_negative() -> None:
    """A negative one is refused, because a maximum would lose it."""
    with pytest.raises(UsageError, match="not negative: -1"):
        GCounter({b"a": 5}).increment(b"a", -1)
    with pytest.raises(UsageError):
        PNCounter().decrement(b"a", -1)
    with pytest.raises(UsageError):
        GCounter({b"a": -1})


def test_nothing_is_the_same_as_zero() -> None:
    """A slot of 0 says nothing, so it is not kept, and counting 0 changes nothing."""
    assert GCounter({b"a": 0}) == GCounter() == GCounter().increment(b"a", 0)
    assert hash(GCounter({b"a": 0})) == hash(GCounter())


def test_a_state_is_a_value() -> None:
    """What it was made from may change, it does not; equal states have equal hashes."""
    slots = {b"a": 1}
    state = GCounter(slots)
    slots[b"a"] = 2
    assert state.value == 1
    with pytest.raises(TypeError):
        state.slots[b"a"] = 3  # type: ignore[index]  # that it is no MutableMapping is what is tested
    assert len({PNCounter(state), PNCounter(GCounter({b"a": 1}))}) == 1


def test_a_delta_holds_one_slot() -> None:
    """Its total, and nothing of the others; of the other sign neither."""
    state = PNCounter(GCounter({b"a": 5, b"b": 7}), GCounter({b"a": 2}))
    assert state.increment_delta(b"a", 3) == PNCounter(plus=GCounter({b"a": 8}))
    assert state.decrement_delta(b"a", 3) == PNCounter(minus=GCounter({b"a": 5}))


def test_parts_are_one_for_each_actor_and_sign() -> None:
    """Three slots, three parts."""
    state = PNCounter(GCounter({b"a": 5, b"b": 7}), GCounter({b"a": 2}))
    assert set(state.decompose()) == {
        PNCounter(plus=GCounter({b"a": 5})),
        PNCounter(plus=GCounter({b"b": 7})),
        PNCounter(minus=GCounter({b"a": 2})),
    }
