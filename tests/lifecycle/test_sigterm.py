"""`exit_on_sigterm`: who asks for it loses nothing by SIGTERM; whoever has a handler keeps it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.faces.either import FACES, truth
from tests.lifecycle.children import program
from tests.lifecycle.web_server import WebServer
from tests.servers import RealServer
from tests.waiting import PATIENCE

COUNTING = """
import asyncio, signal, sys, time
import redis_counters, redis_counters.asyncio
url, face, asked = sys.argv[1:]
if asked == "yes":
    assert redis_counters.exit_on_sigterm() and redis_counters.exit_on_sigterm()
async def main():
    counters = redis_counters.asyncio.Counters.from_url(url, flush_interval=60)
    counters.incr("x", 7)
    print("ready", flush=True)
    await asyncio.sleep(60)
if face == "asyncio":
    asyncio.run(main())
counters = redis_counters.Counters.from_url(url, flush_interval=60)
counters.incr("x", 7)
print("ready", flush=True)
time.sleep(60)
"""


def stopped(*arguments: str) -> tuple[int, str]:
    """Run a program until it says that it is ready, and stop it by SIGTERM; return its exit code and complaints."""
    process = subprocess.Popen([sys.executable, "-c", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        _, complaints = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert line == b"ready\n", complaints
    return process.returncode, complaints.decode()


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("asked", ["yes", "no"])
def test_a_program(any_server: RealServer, face: str, asked: str) -> None:
    """With it the process ends by exit code 0, and what it counted is there; without it is lost."""
    code, complaints = stopped(COUNTING, any_server.url, face, asked)
    assert (code, complaints) == ((0, "") if asked == "yes" else (-signal.SIGTERM, ""))
    assert truth(any_server, ["x"]) == {b"x": 7 if asked == "yes" else 0}


def test_a_handler_that_is_there(any_server: RealServer) -> None:
    """It stays, is called as before, and decides what happens; so does one that comes later; so does ignoring."""
    done = program(
        """
import os, signal, sys
from redis_counters import exit_on_sigterm
told = []
def own(number, frame):
    told.append(number)
for there in (own, signal.SIG_IGN):
    signal.signal(signal.SIGTERM, there)
    assert exit_on_sigterm() is False
    assert signal.getsignal(signal.SIGTERM) is there
    os.kill(os.getpid(), signal.SIGTERM)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
assert exit_on_sigterm() is True
assert signal.signal(signal.SIGTERM, own) is not signal.SIG_DFL
os.kill(os.getpid(), signal.SIGTERM)
assert told == [signal.SIGTERM] * 2
print("fine")
"""
    )
    assert done.stdout == "fine\n", done.stderr


def test_only_the_main_thread(any_server: RealServer) -> None:
    """In another thread nothing is done, and nothing raised: an application may be imported there."""
    done = program(
        """
import signal, threading
from redis_counters import exit_on_sigterm
told = []
thread = threading.Thread(target=lambda: told.append(exit_on_sigterm()))
thread.start()
thread.join()
assert told == [False]
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
print("fine")
"""
    )
    assert done.stdout == "fine\n", done.stderr


def test_the_second_one(any_server: RealServer) -> None:
    """While the process ends, another SIGTERM ends it at once: nobody has to wait for what hangs."""
    code, _ = stopped(
        """
import atexit, os, signal, time
from redis_counters import exit_on_sigterm
exit_on_sigterm()
atexit.register(time.sleep, 60)
atexit.register(lambda: os.kill(os.getpid(), signal.SIGTERM))
print("ready", flush=True)
time.sleep(60)
"""
    )
    assert code == -signal.SIGTERM


def test_children_of_multiprocessing(any_server: RealServer) -> None:
    """Those of a fork inherit it: `terminate()` loses nothing any more."""
    done = program(
        """
import multiprocessing, sys, time
from redis_counters import Counters, exit_on_sigterm
def work(url, ready):
    counters = Counters.from_url(url, flush_interval=60)
    counters.incr("x", 5)
    ready.set()
    time.sleep(60)
exit_on_sigterm()
context = multiprocessing.get_context("fork")
ready = context.Event()
child = context.Process(target=work, args=(sys.argv[1], ready))
child.start()
ready.wait()
child.terminate()
child.join()
print(child.exitcode)
""",
        any_server.url,
    )
    assert done.stdout == "0\n", done.stderr
    assert truth(any_server, ["x"]) == {b"x": 5}


SERVERS = {
    "flask run": ["-m", "flask", "--app", "tests.contrib.apps.flask_app:application", "run", "--host={host}"],
    "runserver --noreload": ["-m", "tests.contrib.apps.django_manage", "runserver", "--noreload", "{address}"],
}
SERVERS["flask run"].append("--port={port}")


@pytest.mark.every(2, "a web server each")
@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("asked", [True, False], ids=["asked", "not asked"])
def test_servers_for_development(
    any_server: RealServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, asked: bool
) -> None:
    """Stopped by SIGTERM, they deliver what was answered; without it they are killed, and it is lost."""
    if asked:
        monkeypatch.setenv("EXIT_ON_SIGTERM", "yes")
    web = WebServer(SERVERS[kind], any_server, tmp_path / "log", 30.0)
    try:
        web.until(web.request)
        for _ in range(9):
            assert web.request()
        web.process.send_signal(signal.SIGTERM)
        web.ended()
    finally:
        web.process.kill()
        web.process.wait()
    assert web.process.returncode == (0 if asked else -signal.SIGTERM)
    found: dict[bytes, Any] = truth(any_server, ["requests", "amounts"])
    assert found == ({b"requests": 10, b"amounts": 30} if asked else {b"requests": 0, b"amounts": 0})


RELOADERS = {
    "flask run --debug": [*SERVERS["flask run"], "--debug"],
    "runserver": [argument for argument in SERVERS["runserver --noreload"] if argument != "--noreload"],
}


@pytest.mark.parametrize("kind", RELOADERS)
@pytest.mark.slow("a web server that reloads")
def test_a_reloader_kills_what_counts(
    any_server: RealServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It ends orderly by SIGTERM, and its process by SIGKILL: what that had not flushed is lost, as the docs say."""
    monkeypatch.setenv("EXIT_ON_SIGTERM", "yes")
    web = WebServer(RELOADERS[kind], any_server, tmp_path / "log", 30.0)
    try:
        web.until(web.request)
        web.process.send_signal(signal.SIGTERM)
        web.ended()
    finally:
        web.process.kill()
        web.process.wait()
        for pid in web.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert web.process.returncode == 0
    assert web.pids
    assert truth(any_server, ["requests", "amounts"]) == {b"requests": 0, b"amounts": 0}


@pytest.mark.slow("a web server")
def test_a_server_that_has_a_handler(any_server: RealServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps it, and ends as orderly as ever: who asks in an application need not know who serves it."""
    monkeypatch.setenv("EXIT_ON_SIGTERM", "yes")
    app = "tests.contrib.apps.flask_app:application()"
    for preload in (["--preload"], []):
        arguments = ["-m", "gunicorn", "--workers=2", "--bind={address}", *preload, app]
        before = truth(any_server, ["requests"])[b"requests"]
        web = WebServer(arguments, any_server, tmp_path / "log", 30.0)
        try:
            web.until(web.request)
            with web.load():
                web.until(lambda web=web: web.answered >= 50)  # type: ignore[misc]
                web.process.send_signal(signal.SIGTERM)
                web.ended()
        finally:
            web.process.kill()
            web.process.wait()
        counted = truth(any_server, ["requests"])[b"requests"] - before
        assert web.answered <= counted <= web.answered + web.unknown
