"""Entries of a shard, by region and dot: what its peers told, what a reset has seen. Most shards have none.

====================  =================================================================================
field                 holds
====================  =================================================================================
``@REGION/DOT+ -``    the total of that region's shard whose key has that dot, as an exchange told it
``@/DOT+ -``          of this region's own: of an earlier key, or of the live one, as a peer had it
``~@REGION/DOT+ -``   the floor under that entry: so much of it a reset has seen; ``~@/DOT`` likewise
====================  =================================================================================

Of the live key (its dot is the field ``d``) base, slots and slots' floors make up the total; an entry of the same dot
is an earlier or later copy of it, so both together are their maximum, per sign. An absent total or floor is 0.

Plain lists of ints, because reads come through here; the type with laws is `regional.RegionalShard`.
"""

from __future__ import annotations

from collections.abc import Iterable

from redis_counters.errors import quoted

PLUS, MINUS, TILDE, AT, SLASH = b"+-~@/"

Entry = list[int]
"""Increments, decrements, and the floors under the two."""

Entries = dict[bytes, Entry]
"""By region and dot, as ``REGION/DOT``; the own region's name is empty."""


def entries_of(special: Iterable[tuple[bytes, bytes]], dot: bytes, plus: int, minus: int) -> Entries:
    """Return the entries that fields with an ``@`` hold, and that of the live key, by its dot and what it counted.

    Cost: O(fields). Raises: ValueError, naming the field, for a count that is not a decimal.
    """
    found: Entries = {}
    for name, raw in special:
        floor = name[:1] == b"~"
        place = name[1 + floor : -1]
        if name[floor] != AT or SLASH not in place or name[-1] not in (PLUS, MINUS):
            continue  # left for later versions
        found.setdefault(place, [0, 0, 0, 0])[2 * floor + (name[-1] == MINUS)] = count_of(name, raw)
    live = found.setdefault(b"/" + dot, [0, 0, 0, 0])
    live[0], live[1] = max(live[0], plus), max(live[1], minus)
    return found


def live_total(fields: Iterable[tuple[bytes, bytes]], sign: bytes) -> int:
    """Return what base and slots of a sign come to, less the slots' floors, without any copy of them."""
    counted = 0
    for name, raw in fields:
        if name[-1:] == sign and AT not in name:
            counted += -count_of(name, raw) if name[0] == TILDE else count_of(name, raw)
    return counted


def value_of(entries: Entries) -> int:
    """Return what they count: totals less floors."""
    return sum(entry[0] - entry[2] - entry[1] + entry[3] for entry in entries.values())


def count_of(name: bytes, raw: bytes) -> int:
    """Return the count that a field holds. Raises ValueError, naming the field, for what is none."""
    if not raw.isdigit():
        raise ValueError(f"field {quoted(name)} holds {quoted(raw[:40])}, which is not a count")
    return int(raw)
