"""Differences between regions, and their causes: the states of one shard compared, as pure values.

The merge of their states is what all regions will have once they have exchanged everything. Each part of it that a
region lacks is a `Gap`; only entries that count for nothing any more may be missing, for they are dropped when all
regions have received them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import reduce
from typing import NamedTuple

from redis_counters.crdt.regional import RegionalShard, parse_text
from redis_counters.protocol.exchange.shard_text import copy_of_peers, split_error


@dataclass(frozen=True, slots=True)
class State:
    """A shard as one region has it. ``error``: the shard could not be read; nothing else is known then.

    ``wrong``: an entry of it could not be read, and is left out. ``back``: as `copy_of_peers` has it.
    """

    shard: RegionalShard = field(default_factory=RegionalShard)
    there: bool = True
    error: str = ""
    wrong: str = ""
    back: tuple[bytes, list[int]] | None = None


def state_of(text: bytes) -> State:
    """Return the state in a reply of `entries_read`. Raises ValueError."""
    state, wrong = split_error(text)
    shown = wrong.decode("utf-8", "replace")
    if shown and not state:
        return State(there=False, error=shown)
    return State(parse_text(state), there=bool(state), wrong=shown, back=copy_of_peers(text))


class Why(Enum):
    """Why a region lacks something."""

    NOT_PULLED = "not pulled yet"
    MISSING = "key missing: deleted by hand, or evicted"
    LOST = "lost, though it was pulled: the next comparison brings it back"
    AHEAD = "others are ahead of the owner: after a restored backup what it counts anew is lost, until 'regions renew'"
    BEHIND = "fell back behind its peers: as much of what it counts anew is lost, until 'regions renew'"
    CAUGHT_UP = "fell back behind its peers: counts are lost, if not all processes went on; shown until 'regions renew'"
    FLOOR = "floor missing: a reset or a deletion has not arrived"
    EVICTED = "evicted: nothing is exchanged with it"
    SHARDS = "number of shards not received yet"
    EXPIRY = "expiry not received yet"
    UNREADABLE = "cannot be read"


class Gap(NamedTuple):
    """The part of one entry that a region lacks. ``place``: the entry, ``REGION/DOT``; empty for a gap of the shard.

    ``wanted``: the entry's increments, decrements and floors once it is there. ``has`` and ``lacks``: what the entry
    contributes to the counter there now, and what is missing. ``expiry``: of the counter, epoch milliseconds; 0: never.
    """

    region: str
    place: bytes
    wanted: tuple[int, ...]
    has: int
    lacks: int
    why: Why
    note: str = ""
    expiry: int = 0

    @property
    def owner(self) -> str:
        """The region that counted it."""
        return owner_of(self.place)


@dataclass(frozen=True, slots=True)
class Known:
    """More facts of the shard and its regions. ``known_here``: the regions that remember to have had the key.

    ``pulled``: (region, owner) where the region's mark covers the owner's last change. ``now``: the time of each
    region's server, epoch milliseconds: by its own clock a counter expires there.
    """

    evicted: frozenset[str] = frozenset()
    known_here: frozenset[str] = frozenset()
    pulled: frozenset[tuple[str, str]] = frozenset()
    now: Mapping[str, int] = field(default_factory=dict)


NOTHING = Known()
_ROUGHLY = 1_000  # milliseconds: before 7.0 Redis gives an expiry as the time left


def gaps(states: Mapping[str, State], known: Known = NOTHING) -> Iterator[Gap]:
    """Yield the gaps of all regions; none where all are equal."""
    goal = reduce(RegionalShard.merge, (state.shard for state in states.values()))
    for region, state in states.items():
        if state.error:
            yield Gap(region, b"", (), 0, 0, Why.UNREADABLE, state.error)
            continue
        if 0 < goal.expiry <= known.now.get(region, 0):
            continue  # it has expired there, and nothing is sent to it any more
        if state.wrong:
            yield Gap(region, b"", (), 0, 0, Why.UNREADABLE, state.wrong)
        if state.back is not None:
            yield from _behind(region, *state.back)
        for place in goal.places():
            wanted, has = tuple(goal.entry(place)), tuple(state.shard.entry(place))
            if not _enough(has, wanted):
                why = _why(region, owner_of(place), state, has, wanted, known)
                yield Gap(region, place, wanted, _value(has), _value(wanted) - _value(has), why, expiry=goal.expiry)
        if state.there and state.shard.shards < goal.shards:
            yield _simple(region, Why.SHARDS, state.shard.shards, goal.shards)
        if state.there and state.shard.expiry + _ROUGHLY < goal.expiry:
            yield _simple(region, Why.EXPIRY, state.shard.expiry, goal.expiry)


def _behind(region: str, place: bytes, counts: list[int]) -> Iterator[Gap]:
    """Yield a gap if peers had more of the live entry than the region, which may have passed them since.

    (A total at its floor was moved there, with a counter that got fewer shards.)
    """
    sent, floors, live = counts[:2], counts[2:4], counts[4:]
    lacks = [max(0, one - other) for one, other in zip(sent, live, strict=True)]
    if any(lacks):
        yield Gap(region, place, tuple(sent), live[0] - live[1], sum(lacks), Why.BEHIND)
    elif any(one > floor for one, floor in zip(sent, floors, strict=True)):
        yield Gap(region, place, tuple(sent), live[0] - live[1], 0, Why.CAUGHT_UP)


def closed(gap: Gap, state: State, now: int = 0) -> bool:
    """Return whether the region with this new state lacks it no longer, or the counter has expired there."""
    if 0 < gap.expiry <= now:
        return True
    if gap.why in (Why.BEHIND, Why.CAUGHT_UP):
        return state.back is None or not list(_behind(gap.region, *state.back))
    if gap.why is Why.UNREADABLE or state.error:
        return not (state.error or state.wrong)
    if gap.why is Why.SHARDS:
        return state.shard.shards >= gap.wanted[0]
    if gap.why is Why.EXPIRY:
        return state.shard.expiry + _ROUGHLY >= gap.wanted[0] or not state.there
    return _enough(tuple(state.shard.entry(gap.place)), gap.wanted)


def owner_of(place: bytes) -> str:
    """Return the region that counted an entry."""
    return place.partition(b"/")[0].decode("utf-8", "replace")


def _simple(region: str, why: Why, has: int, wanted: int) -> Gap:
    return Gap(region, b"", (wanted,), has, wanted - has, why)


def _value(entry: tuple[int, ...]) -> int:
    plus, minus, floor_plus, floor_minus = entry
    return (plus - floor_plus) - (minus - floor_minus)


def _enough(has: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Return whether nothing is lacking, or whatever is lacking counts for nothing."""
    dropped = not any(has) and wanted[:2] == wanted[2:]
    return dropped or all(mine >= theirs for mine, theirs in zip(has, wanted, strict=True))


def _why(region: str, owner: str, state: State, has: tuple[int, ...], wanted: tuple[int, ...], known: Known) -> Why:
    if {region, owner} & known.evicted:
        return Why.EVICTED
    if not state.there and region in known.known_here:
        return Why.MISSING
    if has[:2] == wanted[:2]:
        return Why.FLOOR
    if region == owner:
        return Why.AHEAD
    return Why.LOST if (region, owner) in known.pulled else Why.NOT_PULLED
