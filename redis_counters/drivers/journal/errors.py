"""Errors of the disk and of SQLite: a journal is damaged, cannot be read or written now, or the disk is full."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from pathlib import Path

ROOM = 8192  # bytes: with less, a journal gets no page more

# SQLite's own words; older Pythons have no codes of its errors.
_FULL = "is full"
_NOT_NOW = ("unable to open", "disk I/O error", "is locked", "readonly", _FULL)


def not_now(error: Exception) -> bool:
    """True if the file may be good, and cannot be read or written now."""
    return isinstance(error, sqlite3.OperationalError) and any(words in str(error) for words in _NOT_NOW)


def is_full(error: BaseException) -> bool:
    """True if the disk is full."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return isinstance(error, sqlite3.OperationalError) and _FULL in str(error)


def cause(error: BaseException, directory: Path) -> str:
    """Return what is wrong, for people: on a full disk, that it is full, also where SQLite says something else."""
    if is_full(error):
        return "the disk is full"
    with contextlib.suppress(OSError):
        disk = os.statvfs(directory)
        if isinstance(error, sqlite3.Error) and disk.f_bavail * disk.f_frsize < ROOM:
            return f"the disk is full ({error})"
    return str(error)
