"""gunicorn and uvicorn are reloaded and stopped under load: what was answered has counted, once.

The client is made and used in the master, before it forks (``--preload``).
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.faces.either import truth
from tests.lifecycle.children import FORKS
from tests.lifecycle.web_server import WebServer
from tests.needs import needs_package
from tests.servers import RealServer

pytestmark = FORKS

OPTIONS = ["--preload", "--workers=4", "--graceful-timeout=20"]
GUNICORN = ["-m", "gunicorn", "tests.lifecycle.web_app:wsgi", *OPTIONS]
SERVERS = {
    "gunicorn, uvicorn workers": [
        *["-m", "gunicorn", "tests.lifecycle.web_app:asgi", *OPTIONS],
        *["--worker-class=uvicorn_worker.UvicornWorker", "--bind={address}"],
    ],
    "gunicorn, sync workers": [*GUNICORN, "--bind={address}"],
    "gunicorn, threads": [*GUNICORN, "--threads=3", "--bind={address}"],
    "gunicorn, gevent": [*GUNICORN, "--worker-class=gevent", "--bind={address}"],
    "gunicorn, gevent, not preloaded": [
        *(argument for argument in GUNICORN if argument != "--preload"),
        *["--worker-class=gevent", "--bind={address}"],
    ],
    "uvicorn": ["-m", "uvicorn", "tests.lifecycle.web_app:asgi", "--host={host}", "--port={port}", "--lifespan=on"],
    "uvicorn, workers": [
        *["-m", "uvicorn", "tests.lifecycle.web_app:asgi", "--host={host}", "--port={port}", "--lifespan=on"],
        "--workers=2",
    ],
}


@pytest.mark.every(9, "servers under load")
@pytest.mark.parametrize(
    ("kind", "flush_interval"),
    [*((kind, 30.0) for kind in SERVERS), ("gunicorn, sync workers", 0.05)],
)
def test_stopped_under_load(any_server: RealServer, tmp_path: Path, kind: str, flush_interval: float) -> None:
    """SIGTERM while requests arrive: all increments of answered requests are there, whatever the flush interval."""
    if "gevent" in kind:
        needs_package("gevent")
    web = WebServer(SERVERS[kind], any_server, tmp_path / "log", flush_interval)
    try:
        web.until(web.request)
        with web.load():
            # gunicorn's worker of gevent ignores a SIGTERM that comes while it patches.
            web.until(lambda: web.answered >= 300 and len(web.pids) >= (4 if "gevent" in kind else 1))
            web.process.send_signal(signal.SIGTERM)
            web.ended()
    finally:
        web.process.kill()
        web.process.wait()
    counts = truth(any_server, ["requests", "amounts"])
    assert web.answered <= counts[b"requests"] <= web.answered + web.unknown
    assert counts[b"amounts"] == 3 * counts[b"requests"]


@pytest.mark.parametrize("kind", [kind for kind in SERVERS if kind.startswith("gunicorn") and "gevent" not in kind])
@pytest.mark.slow("web servers under load")
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
    assert counts[b"loads"] == 1000  # by the master, once; a child does not send what the master had counted
    assert len(web.pids) >= 1 + 3 * 2
