"""Each framework is stopped and reloaded under load: what was answered has counted, whatever the flush interval."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.faces.either import truth
from tests.lifecycle.children import FORKS
from tests.lifecycle.web_server import WebServer
from tests.servers import RealServer

pytestmark = FORKS

APPS = "tests.contrib.apps"
GUNICORN = ["-m", "gunicorn", "--preload", "--workers=3", "--graceful-timeout=20", "--bind={address}"]
UVICORN = ["-m", "uvicorn", "--host={host}", "--port={port}", "--lifespan=on"]
SERVERS = {
    "django": [*GUNICORN, f"{APPS}.django_app:application"],
    "django, threads": [*GUNICORN, "--threads=3", f"{APPS}.django_app:application"],
    "django, asgi": [*UVICORN, f"{APPS}.django_app:asgi_application"],
    "django, asgi, forked": [
        *[*GUNICORN, "--worker-class=uvicorn_worker.UvicornWorker"],
        f"{APPS}.django_app:asgi_application",
    ],
    "flask": [*GUNICORN, f"{APPS}.flask_app:application()"],
    "starlette": [*UVICORN, f"{APPS}.asgi:starlette_app"],
    "fastapi": [*UVICORN, f"{APPS}.asgi:fastapi_app"],
    "fastapi, forked": [*GUNICORN, "--worker-class=uvicorn_worker.UvicornWorker", f"{APPS}.asgi:fastapi_app"],
    "litestar": [*UVICORN, f"{APPS}.asgi:litestar_app"],
}


@pytest.mark.every(6, "web servers under load")
@pytest.mark.parametrize("kind", SERVERS)
def test_stopped_under_load(any_server: RealServer, tmp_path: Path, kind: str) -> None:
    """Servers that fork are reloaded before: workers end, and others begin."""
    web = WebServer(SERVERS[kind], any_server, tmp_path / "log", 30.0)
    forks = "gunicorn" in SERVERS[kind]
    try:
        web.until(web.request)
        with web.load():
            web.until(lambda: web.answered >= 100)
            if forks:
                web.process.send_signal(signal.SIGHUP)
                web.until(lambda: len(web.pids) >= 4)
                web.until(lambda begun=web.answered: web.answered >= begun + 100)  # type: ignore[misc]
            web.process.send_signal(signal.SIGTERM)
            web.ended()
    finally:
        web.process.kill()
        web.process.wait()
    counts = truth(any_server, ["requests", "amounts", "loads"])
    assert web.answered <= counts[b"requests"] <= web.answered + web.unknown
    assert counts[b"amounts"] == 3 * counts[b"requests"]
    assert counts[b"loads"] == (1 if kind.startswith(("django", "flask")) else 0)  # in the process that forked, once


@pytest.mark.parametrize("kind", ["django", "django, asgi", "flask", "starlette", "fastapi", "litestar"])
@pytest.mark.slow("web servers that wait for Redis")
def test_stopped_while_redis_is_away(private_server: RealServer, tmp_path: Path, kind: str) -> None:
    """The end takes its time, and the log has what did not get across."""
    web = WebServer(SERVERS[kind], private_server, tmp_path / "log", 30.0)
    try:
        web.until(web.request)
        private_server.kill()
        web.process.send_signal(signal.SIGTERM)
        web.process.wait(60)
    finally:
        web.process.kill()
        web.process.wait()
    log = web.log.read_text()
    assert "counter 'requests': 1 not known to be in Redis" in log, log
    assert "counter 'amounts': 3 not known to be in Redis" in log, log
