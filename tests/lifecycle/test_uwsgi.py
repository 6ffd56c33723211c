"""uWSGI forks in C, with or without hooks of Python: what was answered has counted, once, and imports once each.

The client is made and used where the application is imported: in the master before it forks, or in each worker.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from redis_counters.drivers.process import fork_hooks, wiped_page
from tests.faces.either import truth
from tests.lifecycle.children import FORKS
from tests.lifecycle.web_server import WebServer
from tests.servers import RealServer
from tests.waiting import until

UWSGI = Path(sys.executable).with_name("uwsgi")

pytestmark = [
    *FORKS,
    pytest.mark.skipif(not UWSGI.exists(), reason="uWSGI is not installed: the wheel pyuwsgi has it, for some Pythons"),
    pytest.mark.skipif(not wiped_page.wiped(fork_hooks.here), reason="this kernel has no MADV_WIPEONFORK"),
]

APP = ["--wsgi-file", str(Path(__file__).with_name("web_app.py")), "--callable", "wsgi"]
MOUNTED = "=tests.lifecycle.web_app:wsgi"
TWO = ["--processes=2", *APP]
IMPORTED = 1000  # counted by each import

KINDS: dict[str, list[str]] = {
    "no threads": TWO,
    "threads enabled": [*TWO, "--enable-threads"],
    "threads": [*TWO, "--threads=4"],
    "hooks of Python": [*TWO, "--threads=4", "--py-call-osafterfork"],
    "lazy": [*TWO, "--lazy-apps", "--threads=2"],
    "one interpreter": [*TWO, "--single-interpreter", "--enable-threads"],
    "mounted twice": [
        "--processes=2",
        "--threads=2",
        *(f"--mount=/{at}{MOUNTED}" for at in "ab"),
        "--manage-script-name",
    ],
    "cheaper": ["--processes=4", "--cheaper=1", "--cheaper-overload=1", "--threads=2", *APP],
    "few requests": [*TWO, "--threads=2", "--max-requests=40", "--min-worker-lifetime=1", "--worker-reload-mercy=10"],
}
IMPORTS = {"lazy": 2, "mounted twice": 2}  # by kind; else one

# By default SIGTERM reloads; with die-on-term workers that are in a request run no hook of exit.
GRACEFUL = ["--master", "--need-app", "--hook-master-start=unix_signal:15 gracefully_kill_them_all"]


@pytest.mark.parametrize(
    ("kind", "flush_interval"),
    [*((kind, 30.0) for kind in KINDS), *((kind, 0.05) for kind in ("no threads", "threads", "lazy"))],
)
@pytest.mark.slow("web servers under load")
def test_stopped_under_load(any_server: RealServer, tmp_path: Path, kind: str, flush_interval: float) -> None:
    """What a master had buffered, or flushed, before it forked counts once; and every request that was answered."""
    at_import = "" if flush_interval < 1 else "yes"  # else it is in the buffer as the master forks
    web = WebServer(
        [*GRACEFUL, "--http-socket={address}", *KINDS[kind]],
        any_server,
        tmp_path / "log",
        flush_interval,
        program=UWSGI,
        path="/a/" if kind == "mounted twice" else "/",
        FLUSH_AT_IMPORT=at_import,
    )
    imports = IMPORTS.get(kind, 1)
    try:
        web.until(web.request)
        with web.load():
            web.until(lambda: web.answered >= 300 and len(web.pids) >= (4 if kind == "few requests" else 2))
        until(
            lambda: truth(any_server, ["loads"])[b"loads"] == imports * IMPORTED,
            "what was counted at import is there",
        )
        web.process.send_signal(signal.SIGTERM)
        web.ended()
    finally:
        web.process.kill()
        web.process.wait()
    counts = truth(any_server, ["requests", "amounts", "loads"])
    assert web.answered <= counts[b"requests"] <= web.answered + web.unknown
    assert counts[b"amounts"] == 3 * counts[b"requests"]
    assert counts[b"loads"] == imports * IMPORTED
