"""The canonical text of a shard, as it travels: `K EXPIRY ENTRY...`, an entry being `REGION/DOT,P,N,FP,FN`.

Here two of them are only compared; the destination itself takes the larger of each count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from redis_counters.crdt.shard_fields import Entries, Entry, entries_of_text, text_of_entry
from redis_counters.errors import quoted
from redis_counters.protocol.wire.replies import BadReply

_WITH_FLOORS = re.compile(rb",\d+,\d+,\d+")


class Shard(NamedTuple):
    """The text of a shard, parsed. ``entries``: by region and dot, as they stand in the text."""

    shards: int
    expiry: int
    entries: Entries


def split_error(text: bytes) -> tuple[bytes, bytes]:
    """Return the text alone, and the error of the shard or of an entry of it; empty where there is none."""
    if text[:1] == b"!":
        return b"", text[1:]
    text, _, wrong = text.partition(b"\n!")
    return text.partition(b"\n?")[0], wrong


def copy_of_peers(text: bytes) -> tuple[bytes, list[int]] | None:
    """Return the copy that peers had of a region's live entry, if that was more than the region had then.

    Its name, its four counts, and the counts there now, up and down.
    """
    _, found, rest = text.partition(b"\n!")[0].partition(b"\n?")
    place, *counts = rest.split(b",")
    return (place, [int(count) for count in counts]) if found else None


def shard_of_text(text: bytes) -> Shard:
    """Parse a text. Raises BadReply."""
    try:
        return Shard(*entries_of_text(text))
    except ValueError:
        raise BadReply(f"expected the text of a shard, got {quoted(text[:80])}") from None


def is_floor(entry: Entry) -> bool:
    """True if it counts for nothing: its totals are its floors. It may be dropped at any time."""
    return entry[0] <= entry[2] and entry[1] <= entry[3]


def lacking(here: bytes, there: bytes) -> bytes:
    """Return the part of the text ``there`` that is more than ``here``; empty if nothing is.

    Entries go whole. One that counts for nothing there and is unknown here is left out: it was dropped here.
    """
    ours, theirs = shard_of_text(here), shard_of_text(there)
    found = []
    for place, entry in theirs.entries.items():
        own = ours.entries.get(place)
        if any(b > a for a, b in zip(own, entry, strict=True)) if own is not None else not is_floor(entry):
            found.append(text_of_entry(place, entry))
    if not found and theirs.shards <= max(ours.shards, 1):
        return b""
    return b" ".join([b"%d %d" % (theirs.shards, theirs.expiry), *found])


def expiry_of(text: bytes) -> int:
    """Return when a shard expires, epoch milliseconds; 0 for never."""
    return shard_of_text(text).expiry


def entries_of(text: bytes, region: bytes) -> Entries:
    """Return the entries of one region."""
    return {p: e for p, e in shard_of_text(text).entries.items() if p.startswith(region + b"/")}


def with_floor(texts: Sequence[bytes]) -> list[int]:
    """Return which of these texts have an entry that counts for nothing. Cheap where there is none."""
    if _WITH_FLOORS.search(b"\n".join(texts)) is None:
        return []
    some = [n for n, text in enumerate(texts) if _WITH_FLOORS.search(text)]
    return [n for n in some if any(map(is_floor, shard_of_text(texts[n]).entries.values()))]
