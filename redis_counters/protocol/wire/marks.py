"""Marks: how far a region has what another one had changed. They are Redis's own; here they are read, and refused.

A mark is `INCARNATION VERSION FULL`, and a number of drops behind it if there were any. It is passed on as it came.
"""

from __future__ import annotations

from typing import NamedTuple

NONE = b"-"
EVICTED = b"evicted 0 0"  # in place of a mark: nothing of that region is merged any more, even if it is in flight


class Mark(NamedTuple):
    """A mark taken apart."""

    incarnation: bytes
    version: int
    full: int


def field_of(region: bytes) -> bytes:
    """Return the field that holds the mark of what was merged from a region."""
    return b"<" + region


def seen_field(region: bytes) -> bytes:
    """Return the field that holds when a region was last looked at, and all that it had merged: epoch milliseconds."""
    return b"t:" + region


JOINED = b"j"  # the field that says: all keys that were there when the bucket joined are in its index
WRITTEN = b"w"  # a field that is written so that there is something to be confirmed


def anew(token: bytes) -> bytes:
    """Return a mark that stands for nothing, and is like no other: what was asked for with another one is refused."""
    return b"anew." + token + b" 0 0"


def mark_of(raw: bytes) -> Mark | None:
    """Return the mark; None for what is none."""
    parts = raw.split(b" ")
    if len(parts) < 3 or not (parts[1].isdigit() and parts[2].isdigit()):
        return None
    return Mark(parts[0], int(parts[1]), int(parts[2]))


def is_void(mark: bytes) -> bool:
    """True in place of the mark of a region that is evicted, or about to be."""
    return mark.startswith(EVICTED)


def is_other(mark: bytes, new: bytes) -> bool:
    """True if the source is new, or another incarnation of itself."""
    before, after = mark_of(mark), mark_of(new)
    return before is None or after is None or before.incarnation != after.incarnation


def is_full(mark: bytes, new: bytes) -> bool:
    """True if the destination fetches all there is: what it has counted itself may be news to it, too."""
    before, after = mark_of(mark), mark_of(new)
    return before is None or after is None or before.incarnation != after.incarnation or before.version < after.full
