"""The change index of a bucket, and the times of its versions.

A note is one member of the index for all that a script has changed, until a reader asks for the names
(`parts/stamp_all.lua`). A moment is a version and its time, as far as the registry's field `h` keeps them
(`parts/moments.lua`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from redis_counters.protocol.wire.answers import list_of
from redis_counters.protocol.wire.commands import Command

_BEGINS = b"\n"  # so does each note, and each flag; a shard begins with a digit
_OF_MANY = b"mc"  # kinds; the others are of one name each, which may hold anything


def is_note(member: bytes) -> bool:
    """True for members that are no shard: a note, or the flag of a shard that was made again (`dots_settle`)."""
    return member.startswith(_BEGINS)


def names_in(note: bytes) -> list[bytes]:
    """Return the names in a note: members, as they will stand in the index by themselves."""
    head, _, names = note[1:].partition(b"\n")
    return names.split(b"\n") if head[:1] in _OF_MANY else [names]


def ask_for_notes(index: bytes, since: int = 0) -> Command:
    """Return the command that reads the notes of a change index later than this version; without one all, and flags."""
    return Command(None, (index,), (b"-inf", b"(%d" % -since if since else b"0"), b"ZRANGEBYSCORE")


def noted_in(raw: object) -> set[bytes]:
    """Return all names in these notes, and flags: one may be in several. Raises what Redis refuses."""
    notes = list_of(raw) if raw else []
    return {name for note in notes if isinstance(note, bytes) and is_note(note) for name in names_in(note)}


class Moment(NamedTuple):
    """A version, and the server's time in seconds."""

    version: int
    at: int


def moments_in(raw: object) -> tuple[Moment, ...]:
    """Return the moments in the field; parts that are none are passed over."""
    parts = [text.partition(b":") for text in raw.split(b" ")] if isinstance(raw, bytes) else []
    return tuple(Moment(int(version), int(at)) for version, _, at in parts if version.isdigit() and at.isdigit())


def waiting(moments: Sequence[Moment], sent: int, now: float, asked: float | None) -> float | None:
    """Return for how many seconds the first change after version ``sent`` has been waiting; None if it is unknown.

    ``now``: the server's time in seconds. ``asked``: how many seconds ago there was no such change yet, if that is
    known. A change between two moments is taken to be at the earlier one, but after it was asked for.
    """
    before = [moment.at for moment in moments if moment.version <= sent]
    after = [moment for moment in moments if moment.version > sent]
    at_least = max(0.0, now - after[0].at) if after else 0.0
    if after and after[0].version == sent + 1:
        return at_least
    at_most = [*([now - before[-1]] if before else []), *([asked] if asked is not None else [])]
    if not at_most:
        return at_least if after else None
    return max(at_least, min(at_most), 0.0)
