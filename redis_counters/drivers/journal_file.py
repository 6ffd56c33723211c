"""One journal: a SQLite file, and beside it a lock file that says whether its process lives.

=====================  ===================================================================================
``rc-<token>.journal``  the journal (SQLite, WAL mode, with ``-wal`` beside it while it is open)
``rc-<token>.lock``     locked by the process that owns the journal, as long as it lives
``rc-<token>.new``      a journal that is being made: it becomes one by its name, with all its tables
``*.damaged``           a journal that could not be read; nobody touches it any more
=====================  ===================================================================================

POSIX locks do not exclude their own process, are lost when the process closes *any* descriptor of the file, and are
not inherited by fork. So a process keeps a list of what it holds, and opens a lock file that it holds never again.

A child of a fork neither uses nor closes what its parent had open. It may take its parent's journal over as anybody
may, once the parent is gone; but to the child's SQLite that file, by its inode, is for ever one that a connection of
this process has locked. So it goes on in a copy, which takes the place of the file.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from redis_counters.protocol.actor import Totals
from redis_counters.protocol.journal import Changes, Head, Slot, Stored, StoredActor
from redis_counters.protocol.slots import Kind

Error = (OSError, sqlite3.Error)
"""What a journal that cannot be written, or read, raises."""

APPLICATION = 0x7263_6A6C  # SQLite's application id: "rcjl"
VERSION = 1
SCHEMA = (
    "CREATE TABLE about(name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    "CREATE TABLE actors(actor INTEGER PRIMARY KEY, bucket, owner, id, seq, base, exact, healing, blurred, unanswered, "
    "folding)",
    "CREATE TABLE slots(actor, kind, key, total, acknowledged, applied, PRIMARY KEY(actor, kind, key)) WITHOUT ROWID",
    "CREATE TABLE flushes(actor, seq, base, totals, PRIMARY KEY(actor, seq)) WITHOUT ROWID",
    "CREATE TABLE early(kind, name, amount, PRIMARY KEY(kind, name)) WITHOUT ROWID",
    "CREATE TABLE calls(call INTEGER PRIMARY KEY, name, amount)",
)
PATIENCE = 5.0  # seconds that a fork waits for a journal that is being written

_guard = threading.RLock()  # while journals are opened, closed and looked for
_held: dict[tuple[int, int], JournalFile] = {}  # by device and inode of the lock file
_inherited: list[JournalFile] = []  # the parent's: never used, never closed
_inherited_inodes: set[tuple[int, int]] = set()  # of what SQLite takes for open, and locked, in this process


class Damaged(Exception):  # noqa: N818 - the names say what happened, as in errors.py
    """A journal cannot be understood."""


class Gone(OSError):  # noqa: N818
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
        with _guard:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            while True:
                path = directory / f"rc-{mint()}.journal"
                lock = _lock(path.with_suffix(".lock"))
                if lock is not None:
                    break
            self = cls(path, lock)
            try:
                _prepare(path.with_suffix(".new"), stored)
                os.rename(path.with_suffix(".new"), path)
                _sync(directory)
                self.open(durable=stored.always)
            except BaseException:
                self._close()
                _unlink(*_parts(path))
                self._let_go()
                raise
            _held[_identity(lock)] = self
            return self

    @classmethod
    def take_over(cls, path: Path) -> JournalFile | None:
        """Return a journal whose process is gone, None if it lives, or was faster. Raises `Error`."""
        with _guard:
            lock = _lock(path.with_suffix(".lock"))
            if lock is None:
                return None
            self = cls(path, lock)
            _held[_identity(lock)] = self
            try:
                if not path.exists():
                    self.remove()
                    return None
                if _inode(path) in _inherited_inodes:
                    _replace_by_copy(path)
            except BaseException:
                self.release()
                raise
            return self

    # -- writing

    def open(self, *, durable: bool) -> None:
        """It can be read and written. ``durable``: it outlives a failure of power, too."""
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=0.0)
        self.connection, self.durable = connection, durable
        # Nobody else has any business with it; without shared memory there is no mapping that a full disk could break.
        self._run("PRAGMA locking_mode = EXCLUSIVE")
        self._run("PRAGMA journal_mode = WAL")
        self._run(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        self._run("PRAGMA journal_size_limit = 1048576")
        self.inode = _inode(self.path)

    def write(self, changes: Changes) -> None:
        """All of the changes are kept, or (it raises `Error`) none."""
        with self.mutex, self._transaction(durable=changes.vital):
            self._write(changes)

    def append(self, call: int, name: bytes, amount: int) -> None:
        """One call is kept, with all before it. Raises `Error`, then it is not."""
        with self.mutex, self._transaction():
            # A call that was interrupted after this has no number of its own.
            self._run("INSERT OR REPLACE INTO calls VALUES (?, ?, ?)", (call, name, amount))

    def _write(self, changes: Changes) -> None:
        actors, run = [(number,) for number in changes.gone], self._many
        for table in ("actors", "slots", "flushes"):
            run(f"DELETE FROM {table} WHERE actor = ?", actors)  # noqa: S608 - a name from the line above
        run(
            "INSERT OR REPLACE INTO actors VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(number, *head) for number, head in changes.heads],
        )
        run(
            "INSERT OR REPLACE INTO slots VALUES (?, ?, ?, ?, ?, ?)",
            [(number, int(kind), key, *slot) for number, kind, key, slot in changes.slots],
        )
        run(
            "DELETE FROM slots WHERE actor = ? AND kind = ? AND key = ?",
            [(number, int(kind), key) for number, kind, key in changes.slots_gone],
        )
        run(
            "INSERT OR REPLACE INTO flushes VALUES (?, ?, ?, ?)",
            [(number, seq, base, _packed(totals)) for number, seq, base, totals in changes.flushes],
        )
        run("DELETE FROM flushes WHERE actor = ? AND seq < ?", changes.flushes_from)
        if changes.early_gone:
            self._run("DELETE FROM early")
        run(
            "INSERT OR REPLACE INTO early VALUES (?, ?, ?)",
            [(int(kind), name, amount) for kind, name, amount in changes.early],
        )
        if changes.calls:
            self._run("DELETE FROM calls WHERE call <= ?", (changes.calls,))
        if changes.buckets is not None:
            self._run("INSERT OR REPLACE INTO about VALUES ('buckets', ?)", (changes.buckets,))

    @contextlib.contextmanager
    def _transaction(self, *, durable: bool = False) -> Iterator[None]:
        if self.connection is None or _inode(self.path) != self.inode:
            raise Gone(errno.ENOENT, "somebody has removed the journal", str(self.path))
        durable = durable and not self.durable
        if durable:
            self._run("PRAGMA synchronous = FULL")
        try:
            self._run("BEGIN IMMEDIATE")
            yield
            self._run("COMMIT")
        finally:
            if self.connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self.connection.execute("ROLLBACK")
            if durable:
                with contextlib.suppress(sqlite3.Error):
                    self.connection.execute("PRAGMA synchronous = NORMAL")

    def _run(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        assert self.connection is not None
        return self.connection.execute(sql, values).fetchall()

    def _many(self, sql: str, rows: Iterable[tuple[Any, ...]]) -> None:
        assert self.connection is not None
        if rows:
            self.connection.executemany(sql, rows)

    # -- reading

    def load(self, namespace: bytes, region: bytes) -> Stored | None:
        """Return all of it, None if it belongs to another namespace or region. Raises Damaged, `Error`."""
        with self.mutex:
            try:
                _check_header(self.path)  # SQLite would write into an empty file
                self.open(durable=True)
                self._check()
                about = dict(self._run("SELECT name, value FROM about"))
                stored = Stored(about["namespace"], about["region"], bool(about["always"]), about["buckets"])
                if (stored.namespace, stored.region) != (namespace, region):
                    return None
                self._read(stored)
                _check_sense(stored)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise Damaged(f"its content makes no sense: {error!r}") from error
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):  # the file may be good, but cannot be had now
                    raise
                raise Damaged(str(error)) from error
        return stored

    def _check(self) -> None:
        problems = [row[0] for row in self._run("PRAGMA quick_check")]
        if problems != ["ok"]:
            raise Damaged(str(problems[0]))
        tables = {row[0] for row in self._run("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
        if tables != set(SCHEMA):
            raise Damaged("its tables are others than this version makes")

    def _read(self, stored: Stored) -> None:
        for number, *columns in self._run("SELECT * FROM actors"):
            numbers, flags = columns[:5], map(bool, columns[5:])
            stored.actors[number] = StoredActor(Head(*numbers, *flags))
        for number, kind, key, *slot in self._run("SELECT * FROM slots"):
            stored.actors[number].slots[Kind(kind), key] = Slot(*slot)
        for number, seq, base, totals in self._run("SELECT * FROM flushes"):
            stored.actors[number].flushes[seq] = (base, _unpacked(totals))
        for kind, name, amount in self._run("SELECT * FROM early"):
            stored.early[Kind(kind), name] = amount
        for call, name, amount in self._run("SELECT * FROM calls ORDER BY call"):
            stored.calls[call] = (name, amount)

    # -- the end

    def remove(self) -> None:
        """It is not needed any more, and gone."""
        with _guard, self.mutex:
            if self.lock < 0:
                return
            self._close()
            _unlink(*_parts(self.path))
            self._let_go()

    def set_aside(self) -> Path:
        """It is out of the way, with all that belongs to it; return where."""
        with _guard, self.mutex:
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
        with _guard, self.mutex:
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
            _held.pop(_identity(lock), None)
            os.close(lock)


def sweep(directory: Path) -> list[Path]:
    """Return the journals in a directory; what is left of journals that never came to be is gone."""
    journals = sorted(directory.glob("rc-*.journal"))
    with _guard:
        for path in directory.glob("rc-*.lock"):
            if not path.with_suffix(".journal").exists():
                with contextlib.suppress(OSError):
                    lock = _lock(path)
                    if lock is not None:
                        if not path.with_suffix(".journal").exists():
                            _unlink(*_parts(path))
                        os.close(lock)
    return journals


def _prepare(path: Path, stored: Stored) -> None:
    """The file is a whole journal with nothing in it."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        os.chmod(path, 0o600)
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute("BEGIN")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        for table in SCHEMA:
            connection.execute(table)
        about = {"namespace": stored.namespace, "region": stored.region, "always": stored.always, "buckets": None}
        connection.executemany("INSERT INTO about VALUES (?, ?)", list(about.items()))
        connection.execute("COMMIT")
    finally:
        connection.close()


def _replace_by_copy(path: Path) -> None:
    """The file has another inode, and the same content at every moment: what is in the WAL belongs to either."""
    copy = path.with_suffix(".new")
    with open(path, "rb") as file, open(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as new:
        shutil.copyfileobj(file, new)
        new.flush()
        os.fsync(new.fileno())
    os.rename(copy, path)
    _sync(path.parent)


def _packed(totals: Totals) -> str:
    return json.dumps([{key.decode("latin-1"): total for key, total in each.items()} for each in totals])


def _unpacked(text: str) -> Totals:
    plus, minus, shards = ({key.encode("latin-1"): total for key, total in each.items()} for each in json.loads(text))
    return plus, minus, shards


def _check_header(path: Path) -> None:
    """Raises Damaged unless the file begins as a journal of this version does."""
    with open(path, "rb") as file:
        header = file.read(100)
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        raise Damaged("not an SQLite file")
    version, application = (int.from_bytes(header[at : at + 4], "big") for at in (60, 68))
    if (application, version) != (APPLICATION, VERSION):
        raise Damaged(f"not a journal of this version (application id {application:#x}, version {version})")


def _check_sense(stored: Stored) -> None:
    """Raises ValueError, TypeError for what no recorder ever kept."""
    for actor in stored.actors.values():
        head = actor.head
        _texts(head.owner, head.id)
        _amounts(head.bucket, head.seq, head.base)
        if stored.buckets is None or head.bucket >= stored.buckets:
            raise ValueError(f"an actor in bucket {head.bucket} of {stored.buckets}")
        prefix = b"{%b:%d}:c:" % (stored.namespace, head.bucket)
        for (_kind, key), slot in actor.slots.items():
            _amounts(*slot)
            if not key.startswith(prefix):
                raise ValueError(f"a slot of another bucket, {key!r}")
        for seq, (base, totals) in actor.flushes.items():
            _amounts(seq, base, *(total for each in totals for total in each.values()))
        latest = max(actor.flushes, default=0)
        if head.unanswered and latest > head.base:
            for kind, each in zip(Kind, actor.flushes[latest][1], strict=True):
                if any((kind, key) not in actor.slots for key in each):
                    raise ValueError("a flush of slots that are not there")
    for (_kind, name), amount in stored.early.items():
        _texts(name)
        _amounts(amount)
    for name, amount in stored.calls.values():
        _texts(name)
        _amounts(abs(amount))


def _texts(*values: object) -> None:
    if not all(isinstance(value, bytes) for value in values):
        raise TypeError(f"{values!r} are no texts")


def _amounts(*values: object) -> None:
    if not all(isinstance(value, int) and value >= 0 for value in values):
        raise TypeError(f"{values!r} are no amounts")


def _lock(path: Path) -> int | None:
    """Return a descriptor of the file, locked; None if somebody has it, or is removing it. `_guard` is held."""
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(path)
        if (status.st_dev, status.st_ino) in _held:
            return None  # opening and closing it would lose our own lock
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _identity(lock) == _inode(path):
            return lock
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            os.close(lock)
            raise
    except BaseException:
        os.close(lock)
        raise
    os.close(lock)
    return None


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _inode(path: Path) -> tuple[int, int]:
    """Return device and inode of what has that name, (0, 0) if nothing has."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return 0, 0
    return status.st_dev, status.st_ino


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


# A lock of SQLite's that another thread holds at the fork would stay locked in the child. So nobody is in there then.

_stopped: list[threading.Lock] = []


def _before_fork() -> None:
    _guard.acquire(timeout=PATIENCE)
    _stopped.extend(file.mutex for file in list(_held.values()) if file.mutex.acquire(timeout=PATIENCE))


def _after_fork_in_parent() -> None:
    while _stopped:
        _stopped.pop().release()
    with contextlib.suppress(RuntimeError):  # it was not to be had in time
        _guard.release()


def _after_fork_in_child() -> None:
    """What the parent has open is the parent's: here it is neither used nor closed, not even at the end."""
    global _guard  # noqa: PLW0603 - the old one may be held by a thread that is not here
    _guard = threading.RLock()
    _stopped.clear()
    for file in _held.values():
        _inherited.append(file)
        if file.connection is not None:
            _inherited_inodes.add(file.inode)
            if hasattr(ctypes, "pythonapi"):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(file.connection))
    _held.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
