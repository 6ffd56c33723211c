"""The content of one Redis hash, a shard of a counter, as pure values.

A shard is a PN-counter with two additions, both of them per sign (a `Half`):

* **floors**: of an actor's slot, that much does not count any more, because it was deleted; the slot stays cumulative;
* a **base**: what folding gathered from the slots of actors that are gone.

The value is base + (slots - floors) of the plus half, minus the same of the minus half.

==================  =====================================================================================
field               holds
==================  =====================================================================================
``G.N.OWN+ -``      slot of actor ``G.N.OWN`` (generation, number, part of its owner token)
``~G.N.OWN+ -``     floor under that slot
``+ -  1+ 1- ...``  base; several fields, because each one must stay within int64
``s.TOKEN+ -``      seed: a slot of no actor, that is never folded; TOKEN is a digest
``s.I.DOT+ -``      copy of what shard I held (see `shard_copies`): a slot of no actor either; shard 0 only
``d``               dot: names this hash's creation, generation.number
``k``               how many shards the counter has; shard 0 only
``o``               how many key shards it has, which only keyed calls ask for; ignored here; shard 0 only
``z``               that it is about to get fewer shards (see narrow_open); ignored here; shard 0 only
with ``@``          ignored: entries of regions, and floors of resets (see `shard_fields`)
any other           ignored: left for later versions, which must not end such a field in ``+`` or ``-``
==================  =====================================================================================

No name and no value holds a blank: `slots_read` parts them by blanks.

There is **no merge of two slot maps** here, because none would be a least upper bound. Folding moves counts from a slot
to the base and deletion takes both away, so of two copies of one hash either may be the later one, field by field, and
their element-wise maximum counts a folded slot twice. What does merge is one slot with what its actor sends
(`raise_slots`); that a folded actor sends nothing any more is the registry's business, and is checked before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from redis_counters.crdt.shard_fields import AT, INT64_MAX, MINUS, PLUS, count_of
from redis_counters.errors import UsageError

__all__ = ["Half", "Sign", "SlotMap", "fold", "format_fields", "parse", "raise_slots"]

Sign = Literal["+", "-"]


@dataclass(frozen=True, slots=True)
class Half:
    """One sign of a slot map; everything in it counts in the same direction.

    An absent slot is not a slot of 0. A floor lies under a slot, and is at most as high.
    """

    slots: Mapping[bytes, int] = field(default_factory=dict)
    floors: Mapping[bytes, int] = field(default_factory=dict)
    base: int = 0

    @property
    def value(self) -> int:
        """This half's part of the value, without its sign."""
        return self.base + sum(self.slots.values()) - sum(self.floors.values())


@dataclass(frozen=True, slots=True)
class SlotMap:
    """The content of one shard."""

    plus: Half = field(default_factory=Half)
    minus: Half = field(default_factory=Half)
    dot: bytes | None = None
    shards: int = 1

    @property
    def value(self) -> int:
        """This shard's part of its counter's value; exact, also beyond int64."""
        return self.plus.value - self.minus.value

    @property
    def actors(self) -> frozenset[bytes]:
        """The actors that have a slot here."""
        return frozenset(self.plus.slots) | frozenset(self.minus.slots)


def raise_slots(state: SlotMap, actor: bytes, sign: Sign, total: int, acknowledged: int = 0) -> SlotMap:
    """Return the state with the actor's slot at least ``total``.

    Of a slot that was missing, only what exceeds ``acknowledged`` counts. Idempotent: a copy of an old call changes
    nothing. Meant for actors that are not folded.
    Raises: UsageError unless 0 <= acknowledged <= total.
    """
    if not 0 <= acknowledged <= total:
        raise UsageError(f"a total of {total} of which {acknowledged} were acknowledged")
    half = _half(state, sign)
    if actor in half.slots:
        if half.slots[actor] >= total:
            return state
        return _with_half(state, sign, replace(half, slots={**half.slots, actor: total}))
    # Deleted under us: what had been acknowledged was there to be deleted, the rest was not.
    floors = {**half.floors, actor: acknowledged} if acknowledged else half.floors
    return _with_half(state, sign, replace(half, slots={**half.slots, actor: total}, floors=floors))


def fold(state: SlotMap, actor: bytes) -> SlotMap:
    """Return the state with the actor's slots moved to the base, less their floors. The value stays. Idempotent."""
    return replace(state, plus=_fold_half(state.plus, actor), minus=_fold_half(state.minus, actor))


def parse(fields: Mapping[bytes, bytes]) -> SlotMap:
    """Return the slot map that these fields are. For inspection; a read takes `shard_fields.scan`.

    Raises: ValueError, naming the field, for a count that is not a decimal.
    """
    slots: dict[int, dict[bytes, int]] = {PLUS: {}, MINUS: {}}
    floors: dict[int, dict[bytes, int]] = {PLUS: {}, MINUS: {}}
    base = {PLUS: 0, MINUS: 0}
    for name, raw in fields.items():
        if AT in name or not name.endswith((b"+", b"-")):
            continue
        sign, stem, count = name[-1], name[:-1], count_of(name, raw)
        if stem.startswith(b"~"):
            floors[sign][stem[1:]] = count
        elif b"." in stem:
            slots[sign][stem] = count
        else:
            base[sign] += count
    return SlotMap(
        plus=Half(slots[PLUS], floors[PLUS], base[PLUS]),
        minus=Half(slots[MINUS], floors[MINUS], base[MINUS]),
        dot=fields.get(b"d"),
        shards=count_of(b"k", fields[b"k"]) if b"k" in fields else 1,
    )


def format_fields(state: SlotMap) -> dict[bytes, bytes]:
    """Return fields that `parse` turns into this slot map again; none of the base fields exceeds int64."""
    fields: dict[bytes, bytes] = {}
    for sign, half in ((b"+", state.plus), (b"-", state.minus)):
        for actor, total in half.slots.items():
            fields[actor + sign] = b"%d" % total
        for actor, floor in half.floors.items():
            fields[b"~" + actor + sign] = b"%d" % floor
        rest, number = half.base, 0
        while rest:
            part = min(rest, INT64_MAX)
            fields[(b"%d" % number if number else b"") + sign] = b"%d" % part
            rest, number = rest - part, number + 1
    if state.dot is not None:
        fields[b"d"] = state.dot
    if state.shards != 1:
        fields[b"k"] = b"%d" % state.shards
    return fields


def _half(state: SlotMap, sign: Sign) -> Half:
    return state.plus if sign == "+" else state.minus


def _with_half(state: SlotMap, sign: Sign, half: Half) -> SlotMap:
    return replace(state, plus=half) if sign == "+" else replace(state, minus=half)


def _fold_half(half: Half, actor: bytes) -> Half:
    moved = half.slots.get(actor, 0) - half.floors.get(actor, 0)
    slots = {other: total for other, total in half.slots.items() if other != actor}
    floors = {other: floor for other, floor in half.floors.items() if other != actor}
    return Half(slots, floors, half.base + moved)
