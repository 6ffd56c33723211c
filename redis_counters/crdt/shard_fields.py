"""The fields of one Redis hash of a counter, read in one pass: all other readers use `scan`.

`slotmap` has the fields of base, slots and floors. Besides, a shard may have entries by region and dot: what its peers
sent, and what a reset has seen. Most shards have none.

====================  =================================================================================
field                 holds
====================  =================================================================================
``@REGION/DOT+ -``    the total of that region's shard whose key has that dot, as an exchange brought it
``@/DOT+ -``          of this region's own: of an earlier key, or of the live one, as a peer had it
``~@REGION/DOT+ -``   the floor under that entry: so much of it a reset has seen; ``~@/DOT`` likewise
====================  =================================================================================

Of the live key (its dot is the field ``d``) base, slots and slots' floors make up the total; an entry of the same dot
is an earlier or later copy of it, so both together are their maximum, per sign. An absent total or floor is 0.

Plain lists of ints, because every read from Redis comes through here; the types with laws are `slotmap.SlotMap` and
`regional.RegionalShard`, which reading does not have to import.
"""

from __future__ import annotations

from collections.abc import Iterable

from redis_counters.errors import quoted

INT64_MAX = 2**63 - 1
PLUS, MINUS, TILDE, AT, SLASH = b"+-~@/"

Fields = Iterable[tuple[bytes, bytes]]
"""Names and values."""

Entry = list[int]
"""Increments, decrements, and the floors under the two."""

Entries = dict[bytes, Entry]
"""By region and dot, as ``REGION/DOT``; the own region's name is empty."""

Scan = tuple[int, int, int, bytes, list[tuple[bytes, bytes]]]
"""Increments and decrements of the live key, how many shards there are (1 if it does not say), its dot, and the fields
with an ``@``, not parsed yet."""


def scan(fields: Fields) -> Scan:
    """Return what these fields count.

    Cost: O(fields); 0.14 microseconds a field, a quarter of what `slotmap.parse` takes.
    Raises: ValueError, naming the field, for a count that is not a decimal.
    """
    plus = minus = 0
    shards = 1
    dot = b""
    special: list[tuple[bytes, bytes]] = []
    for name, raw in fields:
        if AT in name or not name:
            special.append((name, raw))
            continue
        last = name[-1]
        if last == PLUS:
            count = int(raw) if raw.isdigit() else count_of(name, raw)
            if name[0] != TILDE:
                plus += count
            else:
                plus -= count
        elif last == MINUS:
            count = int(raw) if raw.isdigit() else count_of(name, raw)
            if name[0] != TILDE:
                minus += count
            else:
                minus -= count
        elif name == b"d":
            dot = raw
        elif name == b"k":
            shards = count_of(name, raw)
    return plus, minus, shards, dot, special


def sum_fields(fields: Fields) -> tuple[int, int]:
    """Return the value of these fields, and how many shards they say there are. Cost and errors: as `scan`."""
    found = scan(fields)
    _, _, shards, _, _ = found
    return value_of(found), shards


def value_of(found: Scan) -> int:
    """Return the value of what was scanned. Raises: ValueError, naming the field, for an entry that is no decimal."""
    plus, minus, _, _, special = found
    return value_of_entries(entries_of(found)) if special else plus - minus


def entries_of(found: Scan) -> Entries:
    """Return the entries of what was scanned; the live key's is among them. Raises: ValueError, as `value_of`."""
    plus, minus, _, dot, special = found
    entries: Entries = {}
    for name, raw in special:
        floor = name.startswith(b"~")
        place = name[1 + floor : -1]
        if SLASH not in place or name[floor] != AT or name[-1] not in (PLUS, MINUS):
            continue  # left for later versions
        entries.setdefault(place, [0, 0, 0, 0])[2 * floor + (name[-1] == MINUS)] = count_of(name, raw)
    live = entries.setdefault(b"/" + dot, [0, 0, 0, 0])
    live[0], live[1] = max(live[0], plus), max(live[1], minus)
    return entries


def entries_in(fields: Fields) -> Entries:
    """Return the entries of these fields; the live key's is among them. Cost and errors: as `scan`."""
    return entries_of(scan(fields))


def entries_of_text(text: bytes) -> tuple[int, int, Entries]:
    """Return what a canonical text says, ``K EXPIRY REGION/DOT,P,N,FP,FN ...``: k, expiry and entries.

    Raises: ValueError for what is no such text.
    """
    shards, expiry, *parts = text.split(b" ") if text else (b"0", b"0")
    entries: Entries = {}
    for part in parts:
        place, *numbers = part.split(b",")
        if SLASH not in place or not 1 <= len(numbers) <= 4 or place in entries:
            raise ValueError(f"no entry of a shard: {quoted(part[:60])}")
        entries[place] = [count_of(place, number) for number in numbers] + [0] * (4 - len(numbers))
    return count_of(b"K", shards), count_of(b"EXPIRY", expiry), entries


def text_of_entry(place: bytes, entry: Entry) -> bytes:
    """Return an entry as it stands in a canonical text: zeros at its end are left out."""
    counts = b",".join(b"%d" % count for count in entry)
    while counts.endswith(b",0"):
        counts = counts[:-2]
    return place + b"," + counts


def value_of_entries(entries: Entries) -> int:
    """Return what entries count: totals less floors."""
    return sum(entry[0] - entry[2] - entry[1] + entry[3] for entry in entries.values())


def count_of(name: bytes, raw: bytes) -> int:
    """Return the count that a field holds. Raises ValueError, naming the field, for what is none."""
    if not raw.isdigit():
        raise ValueError(f"field {quoted(name)} holds {quoted(raw[:40])}, which is not a count")
    return int(raw)
