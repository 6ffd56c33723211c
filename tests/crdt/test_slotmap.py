"""The meaning of a shard's hash: what its operations keep, and that fast and slow reading agree."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from redis_counters.crdt.shard_fields import INT64_MAX, sum_fields
from redis_counters.crdt.slotmap import Half, Sign, SlotMap, fold, format_fields, parse, raise_slots
from redis_counters.errors import UsageError

ACTORS = (b"Xk3b9.1.Qz3a", b"Xk3b9.12.Qz3a", b"0.1.0")

actors = st.sampled_from(ACTORS)
signs: st.SearchStrategy[Sign] = st.sampled_from(["+", "-"])
totals = st.integers(0, 9) | st.integers(0, INT64_MAX)
# (actor, sign, total, acknowledged)
raises = st.tuples(actors, signs, totals, totals).map(lambda told: (*told[:2], max(told[2:]), min(told[2:])))
Raise = tuple[bytes, Sign, int, int]


@st.composite
def halves(draw: st.DrawFn) -> Half:
    """A half as a shard may hold it: floors lie under slots; the base may exceed int64."""
    slots = draw(st.dictionaries(actors, totals))
    floors = {actor: draw(st.integers(1, total)) for actor, total in slots.items() if total and draw(st.booleans())}
    return Half(slots, floors, draw(totals | st.integers(0, 5 * INT64_MAX)))


slot_maps = st.builds(
    SlotMap, plus=halves(), minus=halves(), dot=st.none() | st.just(b"Xk3b9.12"), shards=st.integers(1, 64)
)


def apply(state: SlotMap, told: Iterable[Raise]) -> SlotMap:
    return reduce(lambda current, one: raise_slots(current, *one), told, state)


# --- raise_slots --------------------------------------------------------------------------------------------------


@given(slot_maps, raises)
def test_raising_is_idempotent(state: SlotMap, told: Raise) -> None:
    """A repeated command changes nothing."""
    once = apply(state, [told])
    assert apply(once, [told]) == once


@given(slot_maps, raises, raises)
def test_raising_commutes_between_slots(state: SlotMap, one: Raise, other: Raise) -> None:
    """Commands for different slots may come in either order."""
    assume(one[:2] != other[:2])
    assert apply(state, [one, other]) == apply(state, [other, one])


@given(slot_maps, st.lists(totals, min_size=1), actors, signs)
def test_old_commands_change_nothing(state: SlotMap, told: list[int], actor: bytes, sign: Sign) -> None:
    """One actor's totals, repeated and in any order, leave the largest of them, or what was larger already."""
    commands: list[Raise] = [(actor, sign, total, 0) for total in told]
    final = apply(state, commands)
    assert apply(final, commands) == final == apply(state, reversed(commands))
    half, before = (final.plus, state.plus) if sign == "+" else (final.minus, state.minus)
    assert half.slots[actor] == max([before.slots.get(actor, 0), *told])


@given(actors, signs, totals, totals, totals)
def test_deleted_counts_stay_deleted(actor: bytes, sign: Sign, acknowledged: int, later: int, more: int) -> None:
    """Of a slot that went missing only what came after counts; the slot is cumulative again, so repeats are safe."""
    direction = 1 if sign == "+" else -1
    total = acknowledged + later
    state = raise_slots(SlotMap(), actor, sign, total, acknowledged)
    assert state.value == direction * later
    assert raise_slots(state, actor, sign, acknowledged) == state
    assert raise_slots(state, actor, sign, total + more, total).value == direction * (later + more)


@given(slot_maps, raises)
def test_raising_changes_the_value_by_what_is_new(state: SlotMap, told: Raise) -> None:
    """No half ever falls."""
    after = apply(state, [told])
    assert after.plus.value >= state.plus.value
    assert after.minus.value >= state.minus.value


@pytest.mark.parametrize(("total", "acknowledged"), [(-1, 0), (5, 6), (5, -1)])
def test_more_acknowledged_than_counted_is_a_mistake(total: int, acknowledged: int) -> None:
    """What was acknowledged is part of the total."""
    with pytest.raises(UsageError):
        raise_slots(SlotMap(), ACTORS[0], "+", total, acknowledged)


# --- fold ---------------------------------------------------------------------------------------------------------


@given(slot_maps, actors)
def test_folding_keeps_the_value(state: SlotMap, actor: bytes) -> None:
    """Slot and floor of the actor are gone, of both signs; the value is the same, and so is a second fold."""
    folded = fold(state, actor)
    assert folded.value == state.value
    assert folded.actors == state.actors - {actor}
    assert not {actor} & {*folded.plus.floors, *folded.minus.floors}
    assert fold(folded, actor) == folded


@given(slot_maps, st.permutations(ACTORS))
def test_folds_commute(state: SlotMap, order: list[bytes]) -> None:
    """Whoever is folded first, all that is left is the base."""
    folded = reduce(fold, order, state)
    assert folded == reduce(fold, ACTORS, state)
    assert folded.value == folded.plus.base - folded.minus.base == state.value


@given(slot_maps, raises, actors)
def test_folding_one_does_not_disturb_another(state: SlotMap, told: Raise, actor: bytes) -> None:
    """A command of one actor and the fold of another may come in either order."""
    assume(told[0] != actor)
    assert fold(apply(state, [told]), actor) == apply(fold(state, actor), [told])


def test_maximum_of_two_copies_counts_a_folded_slot_twice() -> None:
    """Why slot maps have no merge: before and after a fold, element by element."""
    before = raise_slots(SlotMap(), ACTORS[0], "+", 5)
    after = fold(before, ACTORS[0])
    assert Half(before.plus.slots, {}, after.plus.base).value == 10


# --- fields -------------------------------------------------------------------------------------------------------


@given(slot_maps)
def test_fields_say_all(state: SlotMap) -> None:
    """Written and read again it is the same, and no field exceeds int64."""
    fields = format_fields(state)
    assert parse(fields) == state
    assert all(int(raw) <= INT64_MAX for name, raw in fields.items() if name != b"d")


@given(slot_maps)
def test_tally_agrees_with_parse(state: SlotMap) -> None:
    """What reads take and what people look at say the same."""
    assert sum_fields(format_fields(state).items()) == (state.value, state.shards)


def test_every_field_has_its_place() -> None:
    """One of each, by hand."""
    fields = {
        b"Xk3b9.12.Qz3a+": b"100",
        b"Xk3b9.12.Qz3a-": b"7",
        b"~Xk3b9.12.Qz3a+": b"30",
        b"g.9.z+": b"5",
        b"~g.9.z+": b"1",
        b"+": b"9223372036854775807",
        b"1+": b"9223372036854775807",
        b"-": b"2",
        b"1-": b"1",
        b"d": b"Xk3b9.1",
        b"k": b"16",
    }
    base = 2 * INT64_MAX - 3
    state = parse(fields)
    assert state.plus == Half({b"Xk3b9.12.Qz3a": 100, b"g.9.z": 5}, {b"Xk3b9.12.Qz3a": 30, b"g.9.z": 1}, 2 * INT64_MAX)
    assert state.minus == Half({b"Xk3b9.12.Qz3a": 7}, {}, 3)
    assert (state.dot, state.shards) == (b"Xk3b9.1", 16)
    assert state.actors == {b"Xk3b9.12.Qz3a", b"g.9.z"}
    assert state.value == base + 100 - 30 - 7 + 5 - 1
    assert format_fields(state) == {
        name: b"3" if name == b"-" else raw for name, raw in fields.items() if name != b"1-"
    }
    assert sum_fields(fields.items()) == (base + 100 - 30 - 7 + 5 - 1, 16)


def test_an_absent_key_is_an_empty_shard() -> None:
    """HGETALL of no key gives no fields."""
    assert parse({}) == SlotMap()
    assert sum_fields([]) == (0, 1)


@given(slot_maps)
def test_later_versions_may_add_fields(state: SlotMap) -> None:
    """Other regions' entries and unknown fields are passed over, whatever they hold."""
    fields = format_fields(state)
    more = {**fields, b"eu@g.1+": b"5", b"~eu@g.1-": b"x", b"@": b"", b"x": b"1", b"expires": b"never", b"": b"7"}
    assert parse(more) == state
    assert sum_fields(more.items()) == sum_fields(fields.items())


@pytest.mark.parametrize("raw", [b"", b"x", b"1.5", b"-1", b"+1", b" 1", b"1_0", b"1e3", b"\xb2"])
@pytest.mark.parametrize("name", [b"g.9.z+", b"~g.9.z+", b"~g.9.z-", b"+", b"1-", b"k", b"Xk3b9.1.Qz3a-"])
def test_what_is_no_count_is_named(name: bytes, raw: bytes) -> None:
    """Neither reading guesses, and both say where."""
    for read in (parse, lambda fields: sum_fields(fields.items())):
        with pytest.raises(ValueError, match="field '" + name.decode().replace("+", r"\+") + "' holds"):
            read({b"d": b"g.1", name: raw})
