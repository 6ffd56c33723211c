"""Moments: when versions of a bucket were, as far as the registry's field `h` keeps it (`parts/moments.lua`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

SLACK = 1.0  # seconds: of the versions of one second the first is kept


class Moment(NamedTuple):
    """A version, and the server's time in seconds."""

    version: int
    at: int


def moments_in(raw: object) -> tuple[Moment, ...]:
    """Return what the field says; nothing of what is none."""
    found = []
    for text in raw.split(b" ") if isinstance(raw, bytes) else ():
        version, _, at = text.partition(b":")
        if version.isdigit() and at.isdigit():
            found.append(Moment(int(version), int(at)))
    return tuple(found)


def waiting(moments: Sequence[Moment], told: int, now: float, asked: float | None) -> float | None:
    """Return for how many seconds the first change after version ``told`` has been waiting; None if nobody knows.

    ``now``: the server's time in seconds. ``asked``: how long ago there was no such change yet, if that is known.
    Between two moments it is taken to be the earlier one, but no longer ago than it was asked for.
    """
    before = [moment.at for moment in moments if moment.version <= told]
    after = [moment for moment in moments if moment.version > told]
    at_least = max(0.0, now - after[0].at) if after else 0.0
    if after and after[0].version == told + 1:
        return at_least
    at_most = [*([now - before[-1]] if before else []), *([asked] if asked is not None else [])]
    if not at_most:
        return at_least if after else None
    return max(at_least, min(at_most), 0.0)
