"""Notes: what a script has changed is one member of the change index, until somebody asks (`parts/stamp_all.lua`)."""

from __future__ import annotations

from redis_counters.protocol.wire.answers import list_of
from redis_counters.protocol.wire.commands import Command

_BEGINS = b"\n"  # so does each note, and each flag; a shard begins with a digit
_OF_MANY = b"mc"  # kinds; the others are of one name each, which may hold anything


def is_note(member: bytes) -> bool:
    """True for what is no shard: a note, or the flag of a shard that was made again (`dots_settle`)."""
    return member.startswith(_BEGINS)


def names_in(note: bytes) -> list[bytes]:
    """Return what a note tells of: members, as they will stand in the index by themselves."""
    head, _, names = note[1:].partition(b"\n")
    return names.split(b"\n") if head[:1] in _OF_MANY else [names]


def ask_for_notes(index: bytes, since: int = 0) -> Command:
    """Return the command that reads the notes of a change index later than this version; without one all, and flags."""
    return Command(None, (index,), (b"-inf", b"(%d" % -since if since else b"0"), b"ZRANGEBYSCORE")


def noted_in(raw: object) -> set[bytes]:
    """Return all names in these notes, and flags: one may be in several. Raises what Redis refuses."""
    notes = list_of(raw) if raw else []
    return {name for note in notes if isinstance(note, bytes) and is_note(note) for name in names_in(note)}
