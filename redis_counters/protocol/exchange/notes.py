"""Notes: what a large flush has changed is one member of the change index, until somebody asks (`slots_merge`)."""

from __future__ import annotations

from redis_counters.protocol.answers import list_of
from redis_counters.protocol.commands import Command

_BEFORE_EACH = b"\n"  # of the names; a shard begins with a digit


def is_note(member: bytes) -> bool:
    """True for what is no shard."""
    return member.startswith(_BEFORE_EACH)


def names_in(note: bytes) -> list[bytes]:
    """Return what a note tells of: members, as they will stand in the index by themselves."""
    return note.split(_BEFORE_EACH)[1:]


def ask_for_notes(index: bytes, since: int = 0) -> Command:
    """Return the command that reads all notes of a change index that are later than this version."""
    return Command(None, (index,), (b"-inf", b"(%d" % -since), b"ZRANGEBYSCORE")


def noted_in(raw: object) -> set[bytes]:
    """Return all names in these notes: one may be in several. Raises what Redis refuses."""
    notes = list_of(raw) if raw else []
    return {name for note in notes if isinstance(note, bytes) for name in names_in(note)}
