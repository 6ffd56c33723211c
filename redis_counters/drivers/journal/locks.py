"""The journals that this process owns: locks say so to other processes. And what becomes of them in a fork.

POSIX locks do not exclude their own process, are lost when the process closes *any* descriptor of the file, and are
not inherited by fork. So a process keeps a list of what it holds, and opens a lock file that it holds never again.

A child of a fork neither uses nor closes what its parent had open. It may take its parent's journal over as any process
may, once the parent is gone; but to the child's SQLite that file, by its inode, is for ever one that a connection of
this process has locked. So it goes on in a copy, which takes the place of the file.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import threading
from pathlib import Path
from typing import Protocol

from redis_counters.drivers.process import fork_hooks

FORK_TIMEOUT_S = 5.0  # that a fork waits for a journal that is being written


class Owned(Protocol):
    """A journal, as a fork sees it."""

    mutex: threading.Lock
    inode: tuple[int, int]

    @property
    def connection(self) -> object: ...


guard = threading.RLock()  # held while journals are opened, closed and looked for; a child of a fork has one of its own
_held: dict[tuple[int, int], Owned] = {}  # by device and inode of the lock file
_inherited: list[Owned] = []  # the parent's: never used, never closed
_inherited_inodes: set[tuple[int, int]] = set()  # of what SQLite takes for open, and locked, in this process


def lock(path: Path) -> int | None:
    """Return a descriptor of the file, locked; None if another process has it, or is removing it. `guard` is held."""
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(path)
        if (status.st_dev, status.st_ino) in _held:
            return None  # opening and closing it would lose our own lock
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _identity(descriptor) == inode(path):
            return descriptor
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            os.close(descriptor)
            raise
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def hold(descriptor: int, journal: Owned) -> None:
    """The lock is this process's, and says that it owns the journal."""
    _held[_identity(descriptor)] = journal


def let_go(descriptor: int) -> None:
    """The lock is free."""
    _held.pop(_identity(descriptor), None)
    os.close(descriptor)


def was_the_parents(path: Path) -> bool:
    """True of a journal that this process's SQLite takes for open, because the parent had it open at the fork."""
    return inode(path) in _inherited_inodes


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def inode(path: Path) -> tuple[int, int]:
    """Return device and inode of what has that name, (0, 0) if nothing has."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return 0, 0
    return status.st_dev, status.st_ino


# A lock of SQLite's that another thread holds at the fork would stay locked in the child. So no thread holds one then.

_stopped: list[threading.Lock] = []


def _before_fork() -> None:
    guard.acquire(timeout=FORK_TIMEOUT_S)
    _stopped.extend(file.mutex for file in list(_held.values()) if file.mutex.acquire(timeout=FORK_TIMEOUT_S))


def _after_fork_in_parent() -> None:
    while _stopped:
        _stopped.pop().release()
    with contextlib.suppress(RuntimeError):  # it was not to be had in time
        guard.release()


def _after_fork_in_child() -> None:
    """Files that the parent has open are neither used nor closed here, not even at the end."""
    global guard  # noqa: PLW0603 - the old one may be held by a thread that is not here
    guard = threading.RLock()
    _stopped.clear()
    for file in _held.values():
        _inherited.append(file)
        if file.connection is not None:
            _inherited_inodes.add(file.inode)
            if hasattr(ctypes, "pythonapi"):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(file.connection))
    _held.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent)
fork_hooks.before_all(_after_fork_in_child)
