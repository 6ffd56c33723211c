"""gunicorn and uvicorn are reloaded and stopped under load: what was answered has counted, once.

The client is made and used in the master, before it forks (``--preload``).
"""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faces.either import truth
from tests.lifecycle.children import FORKS, ROOT
from tests.servers import HOST, RealServer, free_port

pytestmark = FORKS
PATIENCE = 60.0
CLIENTS = 4

OPTIONS = ["--preload", "--workers=4", "--graceful-timeout=20"]
GUNICORN = ["-m", "gunicorn", "tests.lifecycle.web_app:wsgi", *OPTIONS]
SERVERS = {
    "gunicorn, uvicorn workers": [
        *["-m", "gunicorn", "tests.lifecycle.web_app:asgi", *OPTIONS],
        *["--worker-class=uvicorn_worker.UvicornWorker", "--bind={address}"],
    ],
    "gunicorn, sync workers": [*GUNICORN, "--bind={address}"],
    "gunicorn, threads": [*GUNICORN, "--threads=3", "--bind={address}"],
    "uvicorn": ["-m", "uvicorn", "tests.lifecycle.web_app:asgi", "--host={host}", "--port={port}", "--lifespan=on"],
    "uvicorn, workers": [
        *["-m", "uvicorn", "tests.lifecycle.web_app:asgi", "--host={host}", "--port={port}", "--lifespan=on"],
        "--workers=2",
    ],
}


class WebServer:
    """A web server of its own, and what its clients saw."""

    def __init__(self, arguments: list[str], server: RealServer, log: Path, flush_interval: float) -> None:
        self.port = free_port()
        places = {"address": f"{HOST}:{self.port}", "host": HOST, "port": self.port}
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, *(argument.format(**places) for argument in arguments)],
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "REDIS_COUNTERS_URL": server.url,
                    "FLUSH_INTERVAL": str(flush_interval),
                },
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
            )
        self.answered = 0  # requests that were answered,
        self.unknown = 0  # and those whose answer did not come: they may have counted
        self.pids: set[int] = set()
        self.lock = threading.Lock()

    def request(self) -> bool:
        """Make one request; True if it was answered."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=20)
        sent = False
        try:
            connection.connect()
            sent = True
            connection.request("GET", "/")
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException):
            with self.lock:
                self.unknown += sent
            return False
        finally:
            connection.close()
        assert response.status == 200, body
        with self.lock:
            self.answered += 1
            self.pids.add(int(body))
        return True

    @contextmanager
    def load(self) -> Iterator[None]:
        """Clients make requests without pause."""
        over = threading.Event()

        def work() -> None:
            while not over.is_set():
                if not self.request():
                    over.wait(0.01)

        threads = [threading.Thread(target=work) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join(30)

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.01)

    def ended(self) -> None:
        """It ends in time, and says nothing of errors."""
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
        text = self.log.read_text()
        assert "Traceback" not in text, text
        assert "not applied" not in text, text


@pytest.mark.parametrize(
    ("kind", "flush_interval"), [*((kind, 30.0) for kind in SERVERS), ("gunicorn, sync workers", 0.05)]
)
def test_stopped_under_load(any_server: RealServer, tmp_path: Path, kind: str, flush_interval: float) -> None:
    """SIGTERM while requests arrive: all increments of answered requests are there, whatever the flush interval."""
    web = WebServer(SERVERS[kind], any_server, tmp_path / "log", flush_interval)
    try:
        web.until(web.request)
        with web.load():
            web.until(lambda: web.answered >= 300)
            web.process.send_signal(signal.SIGTERM)
            web.ended()
    finally:
        web.process.kill()
        web.process.wait()
    counts = truth(any_server, ["requests", "amounts"])
    assert web.answered <= counts[b"requests"] <= web.answered + web.unknown
    assert counts[b"amounts"] == 3 * counts[b"requests"]


@pytest.mark.parametrize("kind", [kind for kind in SERVERS if kind.startswith("gunicorn")])
def test_reloaded_under_load(any_server: RealServer, tmp_path: Path, kind: str) -> None:
    """SIGHUP replaces the workers again and again while requests arrive; then SIGTERM: all of it is there."""
    web = WebServer(SERVERS[kind], any_server, tmp_path / "log", 30.0)
    try:
        web.until(web.request)
        with web.load():
            for _ in range(3):
                known = len(web.pids)
                begun = web.answered
                web.process.send_signal(signal.SIGHUP)
                web.until(lambda known=known, begun=begun: len(web.pids) >= known + 2 and web.answered > begun + 100)  # type: ignore[misc]
        web.process.send_signal(signal.SIGTERM)
        web.ended()
    finally:
        web.process.kill()
        web.process.wait()
    counts = truth(any_server, ["requests", "amounts", "loads"])
    assert web.answered <= counts[b"requests"] <= web.answered + web.unknown
    assert counts[b"amounts"] == 3 * counts[b"requests"]
    assert counts[b"loads"] == 1  # by the master, once; a child does not send what the master had counted
    assert len(web.pids) >= 8
