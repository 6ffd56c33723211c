"""One journal: a SQLite file, and beside it a lock file that says whether its process lives.

=====================  ===================================================================================
``rc-<token>.journal``  the journal (SQLite, WAL mode, with ``-wal`` beside it while it is open)
``rc-<token>.lock``     locked by the process that owns the journal, as long as it lives; how far it was written
``rc-<token>.new``      a journal that is being made: it becomes one by its name, with all its tables
``rc-<token>.mended``   what is whole in a damaged journal: it takes its place when that is set aside
``*.damaged``           a journal that was damaged, as it was found; it is left alone
=====================  ===================================================================================
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

from redis_counters.drivers.journal import format, locks
from redis_counters.drivers.journal.checks import Ledger, ledger_of
from redis_counters.drivers.journal.errors import is_full
from redis_counters.drivers.journal.format import connect, prepare, write, write_call
from redis_counters.drivers.journal.mark import Mark, read_mark
from redis_counters.drivers.journal.paths import (
    finish,
    finished,
    free,
    parts,
    replace_by_copy,
    set_aside,
    sync,
    unlink,
)
from redis_counters.drivers.journal.salvage import Reading, examine
from redis_counters.protocol.journal.changes import Changes, Stored

Error = (OSError, sqlite3.Error)
"""The errors of a journal that cannot be written, or read."""


class Gone(OSError):  # noqa: N818 - the names say what happened, as in errors.py
    """The journal was removed: what is written to it would not outlive the process."""


class JournalFile:
    """A journal that this process owns. Every method may be called in any thread."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self.lock = lock
        self.mutex = threading.Lock()  # SQLite is used by one thread at a time, and by none during a fork
        self.connection: sqlite3.Connection | None = None
        self.inode = (0, 0)
        self.durable = False  # every transaction is on the disk, not only with the operating system
        self.always = False
        self.ledger: Ledger | None = None  # None: to be read from the file
        self.mark = Mark()

    @classmethod
    def make(cls, directory: Path, stored: Stored, mint: Callable[[], str]) -> JournalFile:
        """Return a new journal, empty but for what it is about. Raises `Error`."""
        with locks.guard:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            while True:
                path = directory / f"rc-{mint()}.journal"
                lock = locks.lock(path.with_suffix(".lock"))
                if lock is not None:
                    break
            self = cls(path, lock)
            try:
                self.mark.write(lock)
                os.fsync(lock)
                prepare(path.with_suffix(".new"), stored)
                os.rename(path.with_suffix(".new"), path)
                sync(directory)
                self.open(durable=stored.always)
            except BaseException:
                self._close()
                unlink(*parts(path))
                self._let_go()
                raise
            locks.hold(lock, self)
            return self

    @classmethod
    def take_over(cls, path: Path) -> JournalFile | None:
        """Return a journal whose process is gone, None if it lives, or was faster. Raises `Error`."""
        with locks.guard:
            lock = locks.lock(path.with_suffix(".lock"))
            if lock is None:
                return None
            self = cls(path, lock)
            locks.hold(lock, self)
            try:
                if not finished(path):
                    self.remove()
                    return None
                if locks.was_the_parents(path):
                    replace_by_copy(path)
            except BaseException:
                self.release()
                raise
            return self

    # -- writing

    def open(self, *, durable: bool) -> None:
        """It can be written. ``durable``: what is written outlives a failure of power, too."""
        connection = self.connection = self.connection or connect(self.path)
        self.durable = self.always = durable
        for pragma in (
            "journal_mode = WAL",
            f"synchronous = {'FULL' if durable else 'NORMAL'}",
            # The log takes no more of the disk than it needs.
            f"wal_autocheckpoint = {format.MAX_LOG}",
            f"journal_size_limit = {format.MAX_LOG * format.PAGE}",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        self.inode = locks.inode(self.path)

    def write(self, changes: Changes) -> None:
        """All of the changes are kept, or (it raises `Error`) none."""
        with self.mutex:
            ledger = self._keep(
                lambda connection, ledger: write(connection, changes, ledger),
                durable=changes.vital and not self.durable,
            )
            # From here on something may be sent, and be at two places if this is lost.
            turn = changes.vital or (self.always and changes.buckets is not None)
            self._mark(
                ledger,
                turn=ledger.rounds if turn else self.mark.turn,
                moved=ledger.rounds if changes.moved else self.mark.moved,
            )

    def append(self, call: int, name: bytes, amount: int, expire_at: int | None) -> None:
        """One call is kept, with all before it, and when its counter expires. Raises `Error`, then it is not."""
        with self.mutex:
            ledger = self._keep(
                lambda connection, ledger: write_call(connection, call, name, amount, expire_at, ledger)
            )
            self._mark(ledger, turn=self.mark.turn, moved=self.mark.moved)

    def _mark(self, ledger: Ledger, *, turn: int, moved: int) -> None:
        self.mark = Mark(ledger.rounds, ledger.last, ledger.calls, turn, moved)
        self.mark.write(self.lock)

    def _keep(self, work: Callable[[sqlite3.Connection, Ledger], None], *, durable: bool = False) -> Ledger:
        """The work is done, in a transaction. Return the checksums as of it."""
        try:
            return self._transaction(work, durable=durable)
        except sqlite3.OperationalError as error:
            if not is_full(error) or self.connection is None:
                raise
            # What is in the log may have its place in the file already; then there is room for more.
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return self._transaction(work, durable=durable)

    def _transaction(self, work: Callable[[sqlite3.Connection, Ledger], None], *, durable: bool) -> Ledger:
        connection = self.connection
        if connection is None or locks.inode(self.path) != self.inode:
            raise Gone(errno.ENOENT, "somebody has removed the journal", str(self.path))
        if durable:
            connection.execute("PRAGMA synchronous = FULL")
        try:
            connection.execute("BEGIN IMMEDIATE")
            ledger, self.ledger = self.ledger or ledger_of(connection), None
            work(connection, ledger)
            connection.execute("COMMIT")
            self.ledger = ledger
        finally:
            if connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            if durable:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("PRAGMA synchronous = NORMAL")
        return ledger

    # -- reading

    def load(self, namespace: bytes, region: bytes) -> Reading | None:
        """Return what may be sent of it, None if it belongs to another namespace or region. Raises `Error`.

        If it was damaged, it is set aside, and this becomes a journal of what may be sent (if there is anything).
        """
        with locks.guard, self.mutex:
            mark = read_mark(self.lock)
            reading = examine(self.path, mark, (namespace, region))
            self.connection, self.inode = reading.connection, locks.inode(self.path)
            stored = reading.stored
            if stored is not None and (stored.namespace, stored.region) != (namespace, region):
                return None
            self.mark = mark or Mark()
            if stored is None:
                aside = self._set_aside()
                return Reading(None, f"{reading.damage}; set aside as {aside.name}")
            if reading.damage:
                aside = self._mend(stored, marked=mark is not None)
                reading = Reading(stored, f"{reading.damage}; set aside as {aside.name}")
            self.open(durable=True)
            self.always = stored.always
            return reading

    # -- the end

    def remove(self) -> None:
        """It is not needed any more, and gone."""
        with locks.guard, self.mutex:
            if self.lock < 0:
                return
            self._close()
            unlink(*parts(self.path))
            self._let_go()

    def release(self) -> None:
        """It is another process's to take over."""
        with locks.guard, self.mutex:
            self._close()
            self._let_go()

    def _mend(self, stored: Stored, *, marked: bool) -> Path:
        """The file is set aside, and what is whole in it is in its place; return where. Also if this is interrupted."""
        calls = max(self.mark.calls, len(stored.calls))
        stored.calls = dict(enumerate(stored.calls.values(), calls - len(stored.calls) + 1))
        mended, new = self.path.with_suffix(".mended"), self.path.with_suffix(".new")
        unlink(new)
        ledger = prepare(new, stored, rounds=self.mark.rounds, calls=calls)
        os.rename(new, mended)
        sync(self.path.parent)
        aside = free(self.path)
        os.rename(self.path, aside)  # this is the moment
        self._close()  # under another name, SQLite leaves the log alone
        finish(self.path, aside)
        now = ledger.rounds
        self._mark(ledger, turn=self.mark.turn if marked else now, moved=self.mark.moved if marked else now)
        return aside

    def _set_aside(self) -> Path:
        """It is out of the way, with all that belongs to it; return where."""
        aside = free(self.path)
        set_aside(self.path, aside, ("-wal", "-shm", ""))
        self._close()
        unlink(*parts(self.path))
        self._let_go()
        return aside

    def _close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _let_go(self) -> None:
        lock, self.lock = self.lock, -1
        if lock >= 0:
            locks.let_go(lock)


def sweep(directory: Path) -> list[Path]:
    """Return the journals in a directory; what is left of journals that never came to be is gone."""
    with locks.guard:
        for path in directory.glob("rc-*.lock"):
            if not path.with_suffix(".journal").exists():
                with contextlib.suppress(OSError):
                    lock = locks.lock(path)
                    if lock is not None:
                        try:
                            if not finished(path.with_suffix(".journal")):
                                unlink(*parts(path))
                        finally:  # else no other process could take it as long as this one lives
                            os.close(lock)
    # To open a pipe, say, would take for ever.
    return sorted(path for path in directory.glob("rc-*.journal") if path.is_file())
