"""Notes: what a large flush has changed is one member of the change index, until somebody asks (`slots_merge`)."""

from __future__ import annotations

_BEFORE_EACH = b"\n"  # of the names; a shard begins with a digit


def is_note(member: bytes) -> bool:
    """True for what is no shard."""
    return member.startswith(_BEFORE_EACH)


def names_in(note: bytes) -> list[bytes]:
    """Return what a note tells of: members, as they will stand in the index by themselves."""
    return note.split(_BEFORE_EACH)[1:]
