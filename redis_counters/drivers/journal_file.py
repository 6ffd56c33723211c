"""One journal: a SQLite file, and beside it a lock file that says whether its process lives.

=====================  ===================================================================================
``rc-<token>.journal``  the journal (SQLite, WAL mode, with ``-wal`` beside it while it is open)
``rc-<token>.lock``     locked by the process that owns the journal, as long as it lives
``rc-<token>.new``      a journal that is being made: it becomes one by its name, with all its tables
``*.damaged``           a journal that could not be read; nobody touches it any more
=====================  ===================================================================================
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from redis_counters.drivers import journal_locks
from redis_counters.drivers.journal_format import check_header, prepare, read, understood, write, write_call
from redis_counters.protocol.journal import Changes, Stored

Error = (OSError, sqlite3.Error)
"""What a journal that cannot be written, or read, raises."""


class Gone(OSError):  # noqa: N818 - the names say what happened, as in errors.py
    """Somebody has removed the journal: what is written to it would not outlive the process."""


class JournalFile:
    """A journal that this process owns. Every method may be called in any thread."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self.lock = lock
        self.mutex = threading.Lock()  # SQLite is used by one thread at a time, and by none during a fork
        self.connection: sqlite3.Connection | None = None
        self.inode = (0, 0)
        self.durable = False  # every transaction is on the disk, not only with the operating system

    @classmethod
    def make(cls, directory: Path, stored: Stored, mint: Callable[[], str]) -> JournalFile:
        """Return a new journal, empty but for what it is about. Raises `Error`."""
        with journal_locks.guard:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            while True:
                path = directory / f"rc-{mint()}.journal"
                lock = journal_locks.lock(path.with_suffix(".lock"))
                if lock is not None:
                    break
            self = cls(path, lock)
            try:
                prepare(path.with_suffix(".new"), stored)
                os.rename(path.with_suffix(".new"), path)
                _sync(directory)
                self.open(durable=stored.always)
            except BaseException:
                self._close()
                _unlink(*_parts(path))
                self._let_go()
                raise
            journal_locks.hold(lock, self)
            return self

    @classmethod
    def take_over(cls, path: Path) -> JournalFile | None:
        """Return a journal whose process is gone, None if it lives, or was faster. Raises `Error`."""
        with journal_locks.guard:
            lock = journal_locks.lock(path.with_suffix(".lock"))
            if lock is None:
                return None
            self = cls(path, lock)
            journal_locks.hold(lock, self)
            try:
                if not path.exists():
                    self.remove()
                    return None
                if journal_locks.was_the_parents(path):
                    _replace_by_copy(path)
            except BaseException:
                self.release()
                raise
            return self

    # -- writing

    def open(self, *, durable: bool) -> sqlite3.Connection:
        """It can be read and written. ``durable``: it outlives a failure of power, too."""
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=0.0)
        self.connection, self.durable = connection, durable
        # Nobody else has any business with it; without shared memory there is no mapping that a full disk could break.
        for pragma in (
            "locking_mode = EXCLUSIVE",
            "journal_mode = WAL",
            f"synchronous = {'FULL' if durable else 'NORMAL'}",
            "journal_size_limit = 1048576",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        self.inode = journal_locks.inode(self.path)
        return connection

    def write(self, changes: Changes) -> None:
        """All of the changes are kept, or (it raises `Error`) none."""
        with self.mutex, self._transaction(durable=changes.vital) as connection:
            write(connection, changes)

    def append(self, call: int, name: bytes, amount: int, expire_at: int | None) -> None:
        """One call is kept, with all before it, and when its counter expires. Raises `Error`, then it is not."""
        with self.mutex, self._transaction() as connection:
            write_call(connection, call, name, amount, expire_at)

    @contextlib.contextmanager
    def _transaction(self, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        connection = self.connection
        if connection is None or journal_locks.inode(self.path) != self.inode:
            raise Gone(errno.ENOENT, "somebody has removed the journal", str(self.path))
        durable = durable and not self.durable
        if durable:
            connection.execute("PRAGMA synchronous = FULL")
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            if durable:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("PRAGMA synchronous = NORMAL")

    # -- reading

    def load(self, namespace: bytes, region: bytes) -> Stored | None:
        """Return all of it, None if it belongs to another namespace or region. Raises Damaged, `Error`."""
        with self.mutex, understood():
            check_header(self.path)  # SQLite would write into an empty file
            return read(self.open(durable=True), namespace, region)

    # -- the end

    def remove(self) -> None:
        """It is not needed any more, and gone."""
        with journal_locks.guard, self.mutex:
            if self.lock < 0:
                return
            self._close()
            _unlink(*_parts(self.path))
            self._let_go()

    def set_aside(self) -> Path:
        """It is out of the way, with all that belongs to it; return where."""
        with journal_locks.guard, self.mutex:
            self._close()
            aside = _beside(self.path, ".damaged")
            for suffix in ("-wal", "-shm", ""):
                with contextlib.suppress(FileNotFoundError):
                    os.rename(_beside(self.path, suffix), _beside(aside, suffix))
            _unlink(self.path.with_suffix(".lock"))
            self._let_go()
            return aside

    def release(self) -> None:
        """It is another process's to take over."""
        with journal_locks.guard, self.mutex:
            self._close()
            self._let_go()

    def _close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _let_go(self) -> None:
        lock, self.lock = self.lock, -1
        if lock >= 0:
            journal_locks.let_go(lock)


def sweep(directory: Path) -> list[Path]:
    """Return the journals in a directory; what is left of journals that never came to be is gone."""
    journals = sorted(directory.glob("rc-*.journal"))
    with journal_locks.guard:
        for path in directory.glob("rc-*.lock"):
            if not path.with_suffix(".journal").exists():
                with contextlib.suppress(OSError):
                    lock = journal_locks.lock(path)
                    if lock is not None:
                        if not path.with_suffix(".journal").exists():
                            _unlink(*_parts(path))
                        os.close(lock)
    return journals


def _replace_by_copy(path: Path) -> None:
    """The file has another inode, and the same content at every moment: what is in the WAL belongs to either."""
    copy = path.with_suffix(".new")
    with open(path, "rb") as file, open(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as new:
        shutil.copyfileobj(file, new)
        new.flush()
        os.fsync(new.fileno())
    os.rename(copy, path)
    _sync(path.parent)


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _parts(path: Path) -> list[Path]:
    """Return all files that a journal may consist of; the lock last."""
    bodies = [path.with_suffix(suffix) for suffix in (".new", ".journal")]
    return [_beside(body, end) for body in bodies for end in ("", "-wal", "-shm", "-journal")] + [
        path.with_suffix(".lock")
    ]


def _unlink(*paths: Path) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _sync(directory: Path) -> None:
    """The names in the directory are on the disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
