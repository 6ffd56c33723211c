"""What is started for the page ends with it, however it ends; a worker that dies is replaced."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.cli.commands import COMMAND, TIMEOUT, environment
from tests.waiting import until
from tests.web.running import JSON, running


def gone(pids: set[int]) -> bool:
    def runs(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    return not any(runs(pid) for pid in pids)


@pytest.mark.slow("two web servers")
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_all_processes_end_with_it(tmp_path: Path, by: int) -> None:
    """Also while a browser has a stream open, and a crowd is at work: exit code 0, for redis-counters is exact."""
    with running(tmp_path / "log") as page, page.browser() as browser:
        started = page.family()
        assert set(page.workers) < started
        browser.post("/switches/crowd", data={"on": "yes"}, headers=JSON).raise_for_status()
        browser.post("/switches/losses", data={"on": "yes"}, headers=JSON).raise_for_status()
        until(lambda: page.facts()["issued"] > 500, "a crowd")
        with browser.stream("GET", "/events") as stream:
            lines = stream.iter_lines()
            next(lines)
            assert page.stop(by) == 0
            list(lines)  # it ends, in order
        until(lambda: gone(started), "nothing is left")
        assert page.log.read_text() == ""


@pytest.mark.slow("a page, with servers and workers, of its own")
def test_all_processes_end_when_it_is_killed(tmp_path: Path) -> None:
    with running(tmp_path / "log") as page:
        started = page.family()
        page.process.kill()
        until(lambda: gone(started), "nothing is left")


@pytest.mark.slow("a web server")
def test_ctrl_c_in_a_terminal(tmp_path: Path) -> None:
    """It reaches all processes of the terminal at once; and so do two of them, as impatient people press."""
    for presses in (1, 2):
        with running(tmp_path / f"log{presses}") as page:
            started = page.family()
            for _ in range(presses):
                os.killpg(page.process.pid, signal.SIGINT)
            assert page.process.wait(TIMEOUT) in (0, 130)
            until(lambda: gone(started), "nothing is left")  # noqa: B023 - called at once


@pytest.mark.slow("a web server")
def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    """Both, one after the other, and what was switched on and liked stays."""
    with running(tmp_path / "log") as page, page.browser() as browser:
        browser.post("/posts/1/like", data={"liked": "yes"}, headers=JSON).raise_for_status()
        browser.post("/switches/losses", data={"on": "yes"}, headers=JSON).raise_for_status()
        for pid in page.workers:
            page.kill_worker(pid)
            page.await_workers(pid)
        with page.browser() as late:
            assert late.get("/state").json()["likes"][0] == 1
        state = browser.get("/state").json()
        assert state["mine"] == [1]
        assert state["wanted"] == {"crowd": False, "losses": True}
        until(lambda: page.facts()["losses"], "losses")
        assert not set(page.workers) & set(page.facts()["workers"])


@pytest.mark.slow("a page, with servers and workers, of its own")
def test_two_workers_serve(tmp_path: Path) -> None:
    """Either answers, sooner or later, and both say the same of the switches."""
    with running(tmp_path / "log") as page:
        seen: dict[int, object] = {}

        def ask() -> None:
            state = httpx.get(f"{page.url}/state").json()
            seen[state["worker"]] = state["wanted"]

        until(lambda: set(seen) == set(page.workers), "an answer of each", ask)
        assert list(seen.values()) == [{"crowd": False, "losses": False}] * 2


@pytest.mark.slow("a web server")
def test_it_listens_on_loopback_alone(tmp_path: Path) -> None:
    with running(tmp_path / "log") as page:
        port = int(page.url.rpartition(":")[2])
        listening = {
            fields[1]
            for table in ("tcp", "tcp6")
            for fields in (line.split() for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:])
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port
        }
        assert listening == {f"0100007F:{port:04X}"}


def test_an_address_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [*COMMAND, "demo", "--web", "--port", str(port)]
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT, env=environment(None))
    assert (done.returncode, done.stdout) == (2, b"")
    said = f"cannot listen on 127.0.0.1, port {port}: Address already in use; --port 0 takes a free one"
    assert done.stderr.decode() == f"redis-counters: {said}\n"


@pytest.mark.parametrize("missing", ["fastapi", "jinja2", "uvicorn"])
def test_what_is_not_installed(missing: str) -> None:
    """A sentence says what to install; without --web, nothing of it is imported."""
    block = f"import sys; sys.modules['{missing}'] = None; from redis_counters.cli.app import run; "
    code = block + "sys.exit(run(['demo', '--web', '--port', '0']))"
    done = subprocess.run(["python", "-c", code], executable=COMMAND[0], capture_output=True, env=environment(None))
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == (
        f"redis-counters: demo --web needs redis-counters with the extra `web` ({missing} is missing)\n"
    )


def test_the_other_commands_import_nothing_of_it() -> None:
    code = (
        "import redis_counters.cli.app, sys; print([m for m in ('fastapi', 'jinja2', 'uvicorn') if m in sys.modules])"
    )
    done = subprocess.run([COMMAND[0], "-c", code], capture_output=True, env=environment(None))
    assert done.stdout == b"[]\n"


@pytest.mark.slow("a web server")
def test_it_ends_also_when_its_redis_is_gone(tmp_path: Path) -> None:
    """In the middle of a crowd: it says why it failed, in one line."""
    with running(tmp_path / "log") as page, page.browser() as browser:
        browser.post("/switches/crowd", data={"on": "yes"}, headers=JSON).raise_for_status()
        until(lambda: page.facts()["issued"] > 500, "a crowd")
        started = page.family()
        os.kill(page.private_server_pid(), signal.SIGKILL)
        until(lambda: browser.get("/state", headers=JSON).status_code == 503, "it is known to be away")
        assert page.stop() == 1
        until(lambda: gone(started), "nothing is left")
        said = page.log.read_text()
        assert said.startswith("redis-counters: ")
        assert said.count("\n") == 1
