"""What may be sent of a damaged journal: all that is whole in it, and nothing that may count twice.

A journal that lacks its end is an old one, and its totals may have moved since, to another slot that was sent.
`Mark.turn` and `Mark.moved` say up to when it had not. A file whose pages are damaged may show, beside what it
lacks, rows as they were before; of such a file more is left out. What is left out is in the file that is kept.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from redis_counters.drivers.journal import format as journal_format
from redis_counters.drivers.journal.errors import not_now
from redis_counters.drivers.journal.format import APPLICATION, VERSION, connect, prepare
from redis_counters.drivers.journal.log import frames_of, repaired
from redis_counters.drivers.journal.mark import Mark
from redis_counters.drivers.journal.paths import beside, unlink
from redis_counters.drivers.journal.reading import Found, read, whose
from redis_counters.protocol.journal.changes import Slot, Stored, StoredActor

_NEVER = 2**64
_FIRST = 100  # bytes of the file that say what it is


@dataclass
class Reading:
    """What may be sent of a journal; None: nothing. ``damage``: what is wrong with it, for people, or nothing.

    ``connection``: to the file, if it was opened. To close it may write to the file.
    """

    stored: Stored | None
    damage: str = ""
    connection: sqlite3.Connection | None = None


def examine(path: Path, mark: Mark | None, wanted: tuple[bytes, bytes] | None = None) -> Reading:
    """Return what may be sent; the file and its log stay as they are.

    ``wanted``: namespace and region; of a journal of others nothing else is read, for it is met again and again.
    Raises `OSError`, `sqlite3.Error` if it cannot be had now.
    """
    first = _first(path)
    if first == _as_made(first, version=1):
        return Reading(None, "it is of a version that wrote no checksums; only that version can tell it")
    version = int.from_bytes(first[60:64], "big")
    if (version ^ VERSION).bit_count() > 1 and first == _as_made(first, version):  # one bit may have flipped
        return Reading(None, f"it is of version {version} of the format; only that version can tell it")
    headed = first == _as_made(first)
    page = int.from_bytes(first[16:18], "big") if headed else journal_format.PAGE
    log = _log(path)
    frames = frames_of(log, page)
    connection: sqlite3.Connection | None = None
    found: list[Found] = []
    try:
        if headed and all(frame.good for frame in frames):  # SQLite sees what we see, even when it closes the file
            connection = connect(path)
            others = whose(connection) if wanted is not None else None
            if others not in (None, wanted):
                return Reading(Stored(*others, always=False), connection=connection)
            found.append(_read(connection))
            if _whole(found[0], mark):
                return Reading(found[0].stored, connection=connection)
        else:
            found.append(_read_copy(path, log))
            if headed and _whole(found[0], mark):  # what is damaged was never said to be kept
                return Reading(found[0].stored, connection=connect(path))
        logs = [log, *repaired(frames, page, path.stat().st_size // page)]
        for other in logs[1:]:
            if not _whole(found[-1], mark):
                found.append(_read_copy(path, other))
        for other, as_it_is in list(zip(logs, found, strict=False)):
            if not _whole(found[-1], mark) and not as_it_is.tables:
                found.append(_read_copy(path, other, page))
        return replace(_best(found, mark, headed=headed), connection=connection)
    except BaseException:
        if connection is not None:
            connection.close()
        raise


def _whole(found: Found, mark: Mark | None) -> bool:
    return mark is not None and not found.problems and not found.missing(mark)


def _best(found: list[Found], mark: Mark | None, *, headed: bool) -> Reading:
    """Return as much as can be sent."""
    problem = "" if headed else "it is no journal of this version, or its first page is damaged"
    if not problem:
        problem = next(iter(found[0].problems), "") or (found[0].missing(mark) if mark is not None else "")
    if not problem:
        problem = "how far it was written, its lock file does not say"
    if _whole(found[-1], mark):
        return Reading(found[-1].stored, f"{problem}; all of it could be read")
    best = max((_safe(each, mark) for each in found if each.ours), key=_amount, default=None)
    if best is None or not _amount(best):
        return Reading(None, f"{problem}; nothing of it can be told")
    return Reading(best, f"{problem}; what is whole in it is told")


def _amount(stored: Stored) -> int:
    totals = sum(slot.total for actor in stored.actors.values() for slot in actor.slots.values())
    return totals + sum(stored.early.values()) + sum(abs(amount) for _name, amount in stored.calls.values())


def _safe(found: Found, mark: Mark | None) -> Stored:
    """Return what can be sent of a journal that is not whole, without counting anything twice."""
    old = found.sound and found.summed  # all of it is as it was at one time
    if mark is None:
        current, turn, moved, counted = old and not found.problems, _NEVER, _NEVER, _NEVER
    else:
        current = found.sound and found.counted and found.rounds >= mark.rounds
        turn, moved, counted = mark.turn, mark.moved, mark.counted
    since = found.rounds if old else 0
    # Not at another place by now: what has no identity in Redis yet, and what had not arrived there.
    here, still = current or turn <= since, current or moved <= since
    stored = found.stored
    return replace(
        stored,
        always=False,  # it is not everything
        actors={
            number: _safe_actor(actor, still=still) for number, actor in stored.actors.items() if here or actor.head.id
        },
        early=stored.early if here else {},
        calls={number: call for number, call in stored.calls.items() if number > counted or current or (old and here)},
    )


def _safe_actor(actor: StoredActor, *, still: bool) -> StoredActor:
    head = actor.head._replace(behind=True)
    if still:
        return replace(actor, head=head)
    arrived = {
        which: Slot(slot.acknowledged, slot.acknowledged, slot.applied)
        for which, slot in actor.slots.items()
        if slot.acknowledged
    }
    return StoredActor(head._replace(unanswered=False), arrived)


# -- the files


def _read(connection: sqlite3.Connection) -> Found:
    try:
        return read(connection)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        if not_now(error):
            raise
        return Found(problems=[str(error)], sound=False)


def _read_copy(path: Path, log: bytes, page: int = 0) -> Found:
    """Return what is whole in the file with this log, and with a beginning as this version makes it.

    ``page``: with a first page as this version makes it, of that size; it says which tables there are, and where.
    """
    copy = path.with_suffix(".new")
    files = [copy, *(beside(copy, end) for end in ("-wal", "-journal"))]
    tables = _first_page(copy, page)[_FIRST:] if page == journal_format.PAGE else b""
    unlink(*files)
    try:
        with open(path, "rb") as original, _private(copy) as file:
            file.write(_as_made(original.read(_FIRST)) + tables)  # which pages are free is its own
            original.seek(file.tell())
            shutil.copyfileobj(original, file)
        with _private(files[1]) as file:
            file.write(log)
        with contextlib.closing(connect(copy)) as connection:
            with contextlib.suppress(sqlite3.Error, UnicodeDecodeError):
                connection.execute("PRAGMA synchronous = OFF")
            return _read(connection)
    finally:
        unlink(*files)


@lru_cache(1)
def _first_page(path: Path, size: int) -> bytes:
    unlink(path)
    try:
        prepare(path, Stored(b"", b"", always=False))
        return _first(path, size)
    finally:
        unlink(path)


def _private(path: Path) -> BinaryIO:
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _log(path: Path) -> bytes:
    log = beside(path, "-wal")
    return log.read_bytes() if log.exists() else b""


def _first(path: Path, size: int = _FIRST) -> bytes:
    with open(path, "rb") as file:
        return file.read(size)


def _as_made(first: bytes, version: int = VERSION) -> bytes:
    """Return the beginning of a file as this library makes it, but for what changes there."""
    made = bytearray(first.ljust(_FIRST, b"\0"))
    page = int.from_bytes(made[16:18], "big")
    if page.bit_count() != 1 or page < 512:
        page = journal_format.PAGE
    made[:24] = b"SQLite format 3\0" + page.to_bytes(2, "big") + bytes((2, 2, 0, 64, 32, 32))
    for at, value in ((44, 4), (52, 0), (56, 1), (60, version), (64, 0), (68, APPLICATION)):
        made[at : at + 4] = value.to_bytes(4, "big")
    made[72:92] = bytes(20)
    return bytes(made)
