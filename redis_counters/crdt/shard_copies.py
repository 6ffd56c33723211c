"""Copies in shard 0 of other shards of the counter, each as it was when the counter was given fewer shards.

A copy is named after what it is of: the shard's number, and the dot that marks the creation of its key. Of that key all
totals only grow, so the copy is an earlier state of it, and both together are their maximum, per sign. So a shard is
counted once whether its key is there, is gone, has come back by a fail-over, or has grown since; and a key that was
made anew has another dot, and is another thing.

==================  ===================================================================================
field of shard 0    holds
==================  ===================================================================================
``s.3.GEN.7+ -``    what shard 3 held whose key has the dot ``GEN.7``: a slot of no actor, counted with the others
==================  ===================================================================================
"""

from __future__ import annotations

from redis_counters.crdt.shard_fields import MINUS, PLUS, Entries, Fields, count_of, value_of_entries

Copies = dict[bytes, tuple[int, int]]
"""By the copy's name: what it counts up and down."""

FIRST = b"s."
DOTS = 3  # in the name of a copy: a seed has one, an actor two


def copy_name(shard: int, dot: bytes) -> bytes:
    """Return the name of the copy of a shard."""
    return b"%b%d.%b" % (FIRST, shard, dot)


def is_copy(name: bytes) -> bool:
    """True for the name of a copy, without its sign."""
    return name.startswith(FIRST) and name.count(b".") == DOTS


def copies_in(fields: Fields) -> Copies:
    """Return the copies among the fields of a shard 0. Cost: O(fields). Raises: ValueError for a count that is none."""
    copies: Copies = {}
    for name, raw in fields:
        if name.startswith(FIRST) and name[-1] in (PLUS, MINUS) and is_copy(name[:-1]):
            plus, minus = copies.get(name[:-1], (0, 0))
            count = count_of(name, raw)
            copies[name[:-1]] = (count, minus) if name[-1] == PLUS else (plus, count)
    return copies


def beyond(entries: Entries, shard: int, copies: Copies) -> int:
    """Return what a shard counts beyond its copy, so that both together are their maximum. Cost: O(entries).

    A floor that is higher than the copy takes all of it away, and of several own keys each has its own copy.
    """
    found = {place: list(entry) for place, entry in entries.items()}
    for place, entry in found.items():
        copy = copies.get(copy_name(shard, place[1:])) if place[:1] == b"/" else None
        if copy is not None:
            for sign in (0, 1):
                entry[2 + sign] = max(entry[2 + sign], copy[sign])
                entry[sign] = max(entry[sign], entry[2 + sign])
    return value_of_entries(found)


def copied_shards(copies: Copies) -> int:
    """Return how many shards there were when the last of these was copied, at least: its number and one."""
    return max((int(name.split(b".", 2)[1]) + 1 for name in copies), default=1)
