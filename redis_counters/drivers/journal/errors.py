"""What an error of the disk, or of SQLite, means: that a journal is damaged, cannot be had now, or has no room."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from pathlib import Path

ROOM = 8192  # bytes: with less, a journal gets no page more

# SQLite's own words; older Pythons tell its codes by nothing else.
_FULL = "is full"
_NOT_NOW = ("unable to open", "disk I/O error", "is locked", "readonly", _FULL)


def not_now(error: Exception) -> bool:
    """True if the file may be good, and cannot be had now."""
    return isinstance(error, sqlite3.OperationalError) and any(words in str(error) for words in _NOT_NOW)


def is_full(error: BaseException) -> bool:
    """True if there is no room for what was to be written."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return isinstance(error, sqlite3.OperationalError) and _FULL in str(error)


def cause(error: BaseException, directory: Path) -> str:
    """Return what is wrong, for people: on a full disk, that it is full, whatever SQLite makes of it."""
    if is_full(error):
        return "the disk is full"
    with contextlib.suppress(OSError):
        disk = os.statvfs(directory)
        if isinstance(error, sqlite3.Error) and disk.f_bavail * disk.f_frsize < ROOM:
            return f"the disk is full ({error})"
    return str(error)
